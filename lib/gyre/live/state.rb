# frozen_string_literal: true

# A view's kept variables in its page: signed JSON, not encrypted. Called by Live.

require "json"
require "openssl"
require "securerandom"

module Gyre
  class Live
    # A token is the JSON in Base64, a dot, and its HMAC.
    module State
      SECRET_BYTES = 32

      # Made here, before the mold forks, so that all workers share it.
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

        # Returns {} if another view or secret signed it.
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
