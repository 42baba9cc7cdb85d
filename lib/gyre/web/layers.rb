# frozen_string_literal: true

# Wraps the app in layers: health checks, proxies' headers, request ids, files, sendfile,
# compression, a cache. Made and closed by Gyre::Web::Server.

require "gyre/http/compression"
require "gyre/http/sendfile"
require "gyre/http/static"
require "gyre/web/settings"
require "gyre/web/layers/cache"
require "gyre/web/layers/https"
require "securerandom"

module Gyre
  module Web
    class Layers
      attr_reader :app
      attr_reader :env # keys that every request's env has for the layers

      attr_reader :offered # settings of optional parts of HTTP

      attr_reader :proxies

      attr_reader :cache

      # `settings`: see SERVER_SETTINGS; `unready`: the block of HealthCheck; `tls`, `acme`,
      # `port`: see HTTPS. Raises ArgumentError if a folder is missing.
      def initialize(app, log:, unready: -> {}, tls: nil, acme: nil, port: -> {}, **settings)
        settings = SERVER_SETTINGS.complete(settings)
        static, sendfile, trusted_proxy = settings.values_at(:static, :sendfile, :trusted_proxy)
        @app = app
        @env = {}
        @offered = settings.slice(:early_hints, :extended_connect)
        @roots = []
        @static = nil
        @proxies = trusted_proxy.flat_map { |range| TrustedProxies.ranges(range) }
        @app = HTTP::Compression.new(@app, minimum_bytes: settings[:compress_minimum]) if settings[:compress]
        cache, item = settings.values_at(:cache, :cache_item_limit)
        @app = @cache = Cache.new(@app, bytes_limit: cache, item_bytes_limit: item) if cache.positive?
        unless sendfile.empty?
          @app = HTTP::Sendfile.new(@app, roots(sendfile), log: log)
          @env["sendfile.type"] = "X-Sendfile" # for Rack::Sendfile
        end
        @app = @static = HTTP::Static.new(@app, roots(static)) unless static.empty?
        @app = RequestId.new(@app) if settings[:request_id]
        @app = @https = HTTPS.new(@app, tls, acme: acme, redirect: settings[:https_redirect], &port) if acme || settings[:https_redirect]
        @app = TrustedProxies.new(@app, trusted_proxy, headers: settings[:forwarded_header]) if acme || trusted_proxy.any?
        health = HealthCheck.new(@app, **settings.slice(:health_path, :ready_path), &unready)
        @own_paths = health.paths
        @app = health unless @own_paths.empty?
      end

      # Returns a lambda that is true for paths served without the app; nil if there are none.
      def exempt
        ->(path) { @own_paths.include?(path) || @static&.file?(path) || @https&.token(path) } if @static || @https || @own_paths.any?
      end

      def close = @roots.each(&:close)

      private

      def roots(folders) = folders.map { |folder| HTTP::Files::Root.new(folder.path, **folder.options).tap { |root| @roots << root } }
    end

    # The outermost layer: answers a load balancer's health checks, even beyond requests_limit.
    # Responds with 200 while the loop turns, but on ready_path with 503 unless the server is ready.
    class HealthCheck
      HEADERS = { "content-type" => "text/plain", "cache-control" => "no-store" }.freeze

      # The block returns why the server is not ready, or nil.
      def initialize(app, health_path: nil, ready_path: nil, &unready)
        @app = app
        @health_path = health_path
        @ready_path = ready_path
        @unready = unready
      end

      def paths = [@health_path, @ready_path].compact

      def call(env)
        case env["PATH_INFO"]
        when @health_path then respond(env, nil)
        when @ready_path then respond(env, @unready.call)
        else @app.call(env)
        end
      end

      private

      def respond(env, trouble)
        return [405, HEADERS.merge("allow" => "GET, HEAD"), []] unless %w[GET HEAD].include?(env["REQUEST_METHOD"])

        headers = trouble ? HEADERS.merge("retry-after" => "1") : HEADERS.dup
        [trouble ? 503 : 200, headers, ["#{trouble || "ok"}\n"]]
      end
    end

    # Gives each request an id (--request-id): the client's X-Request-Id if valid, otherwise a new
    # one. Puts the id into env and response. Never waits.
    class RequestId
      # Rails' rule for incoming ids; an invalid id is replaced.
      VALID = /\A[\w@-]{1,200}\z/.freeze
      ENV_KEY = "HTTP_X_REQUEST_ID"
      HEADER = "x-request-id"
      BYTES = 16

      def initialize(app)
        @app = app
      end

      def call(env)
        id = env[ENV_KEY]
        id = env[ENV_KEY] = SecureRandom.hex(BYTES) unless id&.match?(VALID)
        status, headers, body = @app.call(env)
        [status, with(headers, id), body]
      end

      private

      # Adds the header, unless the app has set it (like Rails).
      def with(headers, id)
        return headers if !headers.is_a?(Hash) || headers.key?(HEADER) || headers.key?("X-Request-Id")
        return headers.merge(HEADER => id) if headers.frozen?

        headers[HEADER] = id
        headers
      end
    end
  end
end
