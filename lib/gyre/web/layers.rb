# frozen_string_literal: true

# Layers between sockets and app: proxies' headers, identifiers, files, sendfile, compression. Made
# and closed by Gyre::Web::Server.

require "gyre/http/compression"
require "gyre/http/sendfile"
require "gyre/http/static"
require "gyre/web/layers/health_check"
require "gyre/web/layers/request_id"
require "gyre/web/settings"
require "gyre/web/layers/trusted_proxies"

module Gyre
  module Web
    class Layers
      attr_reader :app
      attr_reader :env # what each env has for them

      attr_reader :offered # optional parts of HTTP that were asked for

      attr_reader :exempt # paths that the server answers by itself
      attr_reader :proxies

      # `settings`: rows of SERVER_SETTINGS; `unready`: see HealthCheck. Raises ArgumentError if a
      # folder is missing.
      def initialize(app, log:, unready: -> {}, **settings)
        settings = SERVER_SETTINGS.complete(settings)
        static, sendfile, trusted_proxy = settings.values_at(:static, :sendfile, :trusted_proxy)
        @app = app
        @env = {}
        @offered = settings.slice(:early_hints, :extended_connect)
        @roots = []
        @static = nil
        @proxies = trusted_proxy.flat_map { |range| TrustedProxies.ranges(range) }
        @app = HTTP::Compression.new(@app, minimum_bytes: settings[:compress_minimum]) if settings[:compress]
        unless sendfile.empty?
          @app = HTTP::Sendfile.new(@app, roots(sendfile), log: log)
          @env["sendfile.type"] = "X-Sendfile" # for Rack::Sendfile
        end
        @app = @static = HTTP::Static.new(@app, roots(static)) unless static.empty?
        @app = RequestId.new(@app) if settings[:request_id]
        @app = TrustedProxies.new(@app, trusted_proxy, headers: settings[:forwarded_header]) unless trusted_proxy.empty?
        health = HealthCheck.new(@app, **settings.slice(:health_path, :ready_path), &unready)
        @exempt = health.paths
        @app = health unless @exempt.empty?
      end

      # Returns a check for paths of files that need no app.
      def files = @static&.method(:file?)

      def close
        @roots.each(&:close)
      end

      private

      def roots(folders)
        folders.map { |folder| HTTP::Files::Root.new(folder.path, **folder.options).tap { |root| @roots << root } }
      end
    end
  end
end
