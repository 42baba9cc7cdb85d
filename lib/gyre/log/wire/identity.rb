# frozen_string_literal: true

# A client's id, which numbers its records, and the secret that proves it. Journals and spools
# contain the id; only a client with the secret may use it, so that other clients cannot use up its
# numbers. Made by Gyre::Log::Sender and kept in its spool; Gyre::Log::Handshake verifies the secret
# and stores nothing.
#
#   id = 676c6f67 (the prefix) + the first 24 hexadecimal digits of SHA-256("gyre log client " + secret)
#
# Ids without the prefix have no secret and are trusted.

require "digest/sha2"
require "openssl"
require "securerandom"

module Gyre
  module Log
    Identity = Struct.new(:client_id, :secret) do
      def self.fresh = of(SecureRandom.hex(16))

      def self.of(secret) = new(id_of(secret), secret)

      def self.id_of(secret)
        self::PREFIX + Digest::SHA256.hexdigest("gyre log client #{secret}")[0, 24]
      end

      # True if this secret belongs to this id.
      def self.proven?(client_id, secret)
        return !client_id.start_with?(self::PREFIX) if secret.nil?

        OpenSSL.fixed_length_secure_compare(id_of(secret), client_id)
      end

      def inspect
        "#<#{self.class} #{client_id}>"
      end
    end

    Identity::PREFIX = "676c6f67"
  end
end
