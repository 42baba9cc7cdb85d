# frozen_string_literal: true

# Signs and verifies a view's variables, which the browser keeps. Encrypts nothing. Called by Live.

require "json"
require "openssl"
require "securerandom"

module Gyre
  class Live
    # A token is JSON in Base64, a dot, and an HMAC of the view's name, the scope and the Base64
    # text. The JSON has the time and, for each variable, its value and a digest of what mount set.
    module State
      AGE_S = 86_400 # older tokens are not taken
      HOUR_S = 3600 # a token's time in hours, so that it changes with the variables only
      SECRET_BYTES = 32

      # The secret is made here, before the mold forks, so that all workers share it.
      @secret = SecureRandom.bytes(SECRET_BYTES)

      class << self
        attr_reader :secret

        def secret=(secret)
          raise ArgumentError, "the secret of live pages needs #{SECRET_BYTES} bytes or more" unless secret.bytesize >= SECRET_BYTES

          @secret = secret
        end

        # Returns the request's session, which a token belongs to.
        def scope(env)
          session = env["rack.session"]
          session.respond_to?(:id) && !session.empty? ? session.id.to_s : ""
        end

        # Returns a digest of each variable. Called right after mount, as handlers may change the
        # objects in place.
        def digests(variables) = variables.transform_values { |value| OpenSSL::Digest::SHA256.base64digest(JSON.generate(value))[0, 8] }

        # `mounted`: the digests of the variables as mount had set them.
        def sign(view, scope, variables, mounted)
          entries = variables.to_h { |name, value| [name, [value, mounted[name]]] }
          text = [JSON.generate([Process.clock_gettime(Process::CLOCK_REALTIME).to_i / HOUR_S, entries])].pack("m0")
          "#{text}.#{signature(view, scope, text)}"
        end

        # Returns the variables; none if the token is of another view, session or secret, or old.
        # What mount now sets otherwise than for the token stays as mount has set it.
        def verify(view, scope, token, mounted)
          text, signature = token.to_s.split(".", 2)
          return {} unless signature && OpenSSL.secure_compare(signature, signature(view, scope, text))

          hour, entries = JSON.parse(text.unpack1("m0"))
          return {} if Process.clock_gettime(Process::CLOCK_REALTIME) - (hour * HOUR_S) > AGE_S + HOUR_S

          entries.select { |name, (_, digest)| digest == mounted[name.to_sym] }.transform_values(&:first)
        end

        private

        def signature(view, scope, text) = OpenSSL::HMAC.hexdigest("SHA256", @secret, "#{view.name}\0#{scope}\0#{text}")
      end
    end
  end
end
