# frozen_string_literal: true

# Faraday 2 adapter for Gyre's HTTP client: `require "gyre/http/client/faraday"`, then `adapter
# :gyre`. Keeps one client for each set of settings. Leaves redirects to middleware.

require "faraday"
require "gyre/http/client"

module Gyre
  module HTTP
    class Client
      # The adapter.
      class FaradayAdapter < ::Faraday::Adapter
        # @api private
        def initialize(*)
          super
          @clients = {}
          @lock = Thread::Mutex.new
        end

        # @api private
        def call(env)
          super
          headers = { "accept-encoding" => nil, **env.request_headers }
          client_for(env).request(env.method, env.url.to_s, body: env.body, headers: headers, timeout_s: env.request.timeout) do |response|
            fields = response.headers.transform_values { |value| Array(value).join(", ") }
            save_response(env, response.status, nil, fields, finished: false)
            env.body = env.stream_response? ? env.stream_response { |&taken| response.each(&taken) && nil } : response.text
          end
          env.response.finish(env) unless env.parallel?
          @app.call(env)
        rescue Client::TimeoutError => error
          raise ::Faraday::TimeoutError, error
        rescue Client::Error => error
          raise error.cause.is_a?(TLS::Error) ? ::Faraday::SSLError : ::Faraday::ConnectionFailed, error
        end

        # Closes kept connections.
        def close = @lock.synchronize { @clients.each_value(&:close) }

        private

        def client_for(env)
          limits = { connect: :open, head: :read, read: :read, write: :write }
                   .to_h { |name, type| [:"#{name}_timeout_s", request_timeout(type, env.request)] }.compact
          options = { proxy: proxy(env.request.proxy), redirects_limit: 0, **@connection_options, **limits }
          @lock.synchronize { @clients[[env.ssl&.to_h, options]] ||= Client.new(tls: tls(env.ssl), **options) }
        end

        def proxy(given)
          return given&.uri&.to_s unless given&.user

          words = [given.user, given.password].map { |word| URI.encode_www_form_component(word.to_s) }
          given.uri.dup.tap { |uri| uri.userinfo = words.join(":") }.to_s
        end

        def tls(ssl)
          return if ssl.nil? || ssl.to_h.compact.empty?

          pem = ->(value) { value.respond_to?(:to_pem) ? value.to_pem : value }
          TLS.client(verify: ssl.verify != false, ca: ssl.ca_file || ssl.ca_path, cert: pem[ssl.client_cert], key: pem[ssl.client_key],
                     alpn: %w[h2 http/1.1])
        end
      end

      ::Faraday::Adapter.register_middleware(gyre: FaradayAdapter)
    end
  end
end
