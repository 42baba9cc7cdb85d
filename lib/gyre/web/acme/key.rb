# frozen_string_literal: true

# An ACME account's key: thumbprint (RFC 7638) and JSON Web Signatures (RFC 7515, ES256). Read by
# Store in all processes, because answers to challenges follow from it alone. No network.

require "digest/sha2"
require "gyre/errors"
require "json"
begin
  require "openssl"
rescue LoadError
  raise Gyre::StartError, "acme needs Ruby's openssl, which is missing: install libssl-dev and then Ruby again, or run `gem install openssl`"
end

module Gyre
  module Web
    module ACME
      class Key
        CURVE = "prime256v1"

        # Returns a new key's PEM.
        def self.generate = OpenSSL::PKey::EC.generate(CURVE).to_pem

        # Encodes as base64url without padding.
        def self.base64(bytes) = [bytes].pack("m0").tr("+/", "-_").delete("=")

        # Takes a PEM. Raises StartError for other keys than ECDSA's with P-256.
        def initialize(pem)
          @key = OpenSSL::PKey.read(pem)
          raise OpenSSL::PKey::PKeyError unless @key.is_a?(OpenSSL::PKey::EC) && @key.group.curve_name == CURVE && @key.private?

          point = @key.public_key.to_octet_string(:uncompressed)
          @public = { "crv" => "P-256", "kty" => "EC", "x" => Key.base64(point[1, 32]), "y" => Key.base64(point[33, 32]) } # RFC 7638's order
        rescue OpenSSL::PKey::PKeyError
          raise StartError, "acme: the account's key must be a PEM of an EC key (P-256) without a passphrase: openssl ecparam -genkey -name #{CURVE}"
        end

        def thumbprint = @thumbprint ||= Key.base64(Digest::SHA256.digest(JSON.generate(@public)))

        # Returns a signed request. `kid` is the account's URL; nil sends the key itself. A payload
        # of nil is a POST-as-GET.
        def sign(payload, url:, nonce:, kid: nil)
          header = { alg: "ES256", url: url, nonce: nonce, **(kid ? { kid: kid } : { jwk: @public }) }
          Key.signature(header, payload && JSON.generate(payload)) do |text|
            numbers = OpenSSL::ASN1.decode(@key.sign(OpenSSL::Digest.new("SHA256"), text)).value
            numbers.map { |number| number.value.to_s(2).rjust(32, "\0") }.join # RFC 7518, section 3.4
          end
        end

        # Signs this key by ID:SECRET of an account elsewhere (RFC 8555, section 7.3.4).
        def bind(account, url)
          kid, secret = account.split(":", 2)
          Key.signature({ alg: "HS256", kid: kid, url: url }, JSON.generate(@public)) do |text|
            OpenSSL::HMAC.digest("SHA256", secret.tr("-_", "+/").unpack1("m"), text)
          end
        end

        def self.signature(header, payload)
          parts = [JSON.generate(header), payload.to_s].map { |text| base64(text) }
          { protected: parts[0], payload: parts[1], signature: base64(yield(parts.join("."))) }
        end
      end
    end
  end
end
