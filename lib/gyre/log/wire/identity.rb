# frozen_string_literal: true

# A client's id and the secret that proves it. A client numbers its records under its id. Ids appear
# in journals and spools; the secret keeps other clients from using the id. Made by
# Gyre::Log::Sender, kept in its spool, verified by Gyre::Log::Handshake.
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

      def self.id_of(secret) = self::PREFIX + Digest::SHA256.hexdigest("gyre log client #{secret}")[0, 24]

      # True if the secret belongs to the id.
      def self.proven?(client_id, secret)
        return !client_id.start_with?(self::PREFIX) if secret.nil?

        OpenSSL.fixed_length_secure_compare(id_of(secret), client_id)
      end

      def inspect = "#<#{self.class} #{client_id}>"
    end

    Identity::PREFIX = "676c6f67"
  end
end
