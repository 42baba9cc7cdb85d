# frozen_string_literal: true

# A client's id, under which its records are numbered, and the secret from which the id was made.
# The id stands in journals and in the names of spools; only the client that shows the secret is
# taken for it, so another one cannot use up its numbers. Made by Gyre::Log::Sender and kept in its
# spool; the server checks it by Gyre::Log::Handshake and stores nothing for that.
#
#   id = 676c6f67 (the prefix) + the first 24 hexadecimal digits of SHA-256("gyre log client " + secret)
#
# Ids without the prefix have no secret: they are believed.

require "digest/sha2"
require "openssl"
require "securerandom"

module Gyre
  module Log
    # A client id with its secret.
    Identity = Struct.new(:client_id, :secret) do
      def self.fresh = of(SecureRandom.hex(16))

      # Of the client with this secret, 32 hexadecimal digits.
      def self.of(secret) = new(id_of(secret), secret)

      def self.id_of(secret)
        self::PREFIX + Digest::SHA256.hexdigest("gyre log client #{secret}")[0, 24]
      end

      # True if this secret belongs to that id.
      def self.proven?(client_id, secret)
        return !client_id.start_with?(self::PREFIX) if secret.nil?

        OpenSSL.fixed_length_secure_compare(id_of(secret), client_id)
      end

      # Without the secret.
      def inspect
        "#<#{self.class} #{client_id}>"
      end
    end

    Identity::PREFIX = "676c6f67"
  end
end
