# frozen_string_literal: true

# The kept variables of a view as its page holds them: JSON that is signed, not encrypted. Called by
# Live.

require "json"
require "openssl"
require "securerandom"

module Gyre
  class Live
    # Signs and checks tokens: the JSON in Base64, a dot, and its HMAC.
    # @api private
    module State
      SECRET_BYTES = 32

      # Made when this file is loaded, so that all workers have the secret of the mold.
      @secret = SecureRandom.bytes(SECRET_BYTES)

      class << self
        attr_reader :secret

        def secret=(secret)
          raise ArgumentError, "the secret of live pages needs #{SECRET_BYTES} bytes or more" unless secret.bytesize >= SECRET_BYTES

          @secret = secret
        end

        def sign(view, variables)
          text = [JSON.generate(variables)].pack("m0")
          "#{text}.#{signature(view, text)}"
        end

        # @return [Hash] empty, if another view or secret has signed it
        def verify(view, token)
          text, signature = token.to_s.split(".", 2)
          return {} unless signature && OpenSSL.secure_compare(signature, signature(view, text))

          JSON.parse(text.unpack1("m0"))
        end

        private

        def signature(view, text) = OpenSSL::HMAC.hexdigest("SHA256", @secret, "#{view.name}\0#{text}")
      end
    end
  end
end
