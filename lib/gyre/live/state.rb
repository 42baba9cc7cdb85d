# frozen_string_literal: true

# Signs and verifies a view's variables, which the browser keeps. Encrypts nothing. Called by Live.

require "json"
require "openssl"
require "securerandom"

module Gyre
  class Live
    # A token is JSON in Base64, a dot, and an HMAC of the view's name and the Base64 text.
    module State
      SECRET_BYTES = 32

      # The secret is made here, before the mold forks, so that all workers share it.
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

        # Returns the variables; {} if the token is of another view or secret.
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
