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
        SSL_OPTIONS = %i[verify verify_hostname verify_mode ca_file ca_path cert_store client_cert client_key version min_version max_version
                         ciphers].freeze
        VERSIONS = { "1" => 0x301, "1_1" => 0x302, "1_2" => 0x303, "1_3" => 0x304 }.freeze
        TEXT = %r{\Atext/|[/+](?:json|xml|javascript|x-www-form-urlencoded)\b}i.freeze
        private_constant :SSL_OPTIONS, :VERSIONS, :TEXT

        # @api private
        def initialize(*)
          super
          @clients = {}
          @lock = Thread::Mutex.new
        end

        # @api private
        def call(env)
          super
          options = { body: env.body, headers: env.request_headers, timeout_s: env.request.timeout }
          client_for(env).request(env.method, env.url.to_s, **options) do |response|
            fields = response.headers.transform_values { |value| Array(value).join(", ") }
            fields = fields.except("content-encoding", "content-length") if response.decoded?
            save_response(env, response.status, nil, fields, finished: false)
            env.body = env.stream_response? ? env.stream_response { |&taken| response.each(&taken) && nil } : text(response)
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

          words = [given.user, given.password].map { |word| URI.encode_www_form_component(word.to_s).gsub("+", "%20") }
          given.uri.dup.tap { |uri| uri.userinfo = words.join(":") }.to_s
        end

        # Returns text in its charset, and anything else as BINARY.
        def text(response)
          body = response.body
          return body.dup.force_encoding(response.charset) if response.charset
          return body unless TEXT.match?(response["content-type"].to_s)

          body.dup.force_encoding(Encoding::UTF_8).then { |utf8| utf8.valid_encoding? ? utf8 : body }
        end

        def tls(ssl)
          given = ssl.to_h.compact
          return if given.empty?

          unknown = given.keys - SSL_OPTIONS
          raise ArgumentError, "ssl: #{unknown.join(", ")} cannot be obeyed by the adapter :gyre" unless unknown.empty?
          raise ArgumentError, "ssl: cert_store stands for itself, without ca_file and ca_path" if ssl.cert_store && (ssl.ca_file || ssl.ca_path)

          verify = ssl.verify_mode ? ssl.verify_mode.anybits?(1) : ssl.verify != false # OpenSSL::SSL::VERIFY_PEER
          TLS.client(verify: verify, ca: ssl.ca_file || ssl.ca_path, cert: pem(ssl.client_cert), key: pem(ssl.client_key), alpn: %w[h2 http/1.1],
                     particulars: { store: ssl.cert_store, any_name: ssl.verify_hostname == false, ciphers: ssl.ciphers,
                                    oldest: version(ssl.min_version || ssl.version), newest: version(ssl.max_version || ssl.version) }.compact)
        end

        def pem(given) = given.is_a?(Array) ? given.map { |one| pem(one) }.join : given.respond_to?(:to_pem) ? given.to_pem : given

        # Returns libssl's number of 771, :TLS1_2 or "TLSv1_2".
        def version(given)
          return given if given.nil? || given.is_a?(Integer)

          VERSIONS.fetch(given.to_s.delete_prefix("TLS").delete_prefix("v")) { raise ArgumentError, "ssl: there is no version #{given}" }
        end
      end

      ::Faraday::Adapter.register_middleware(gyre: FaradayAdapter)
    end
  end
end
