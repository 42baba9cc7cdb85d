# frozen_string_literal: true

# What the settings put between the sockets and the app: what proxies say, identifiers, files,
# files that the app names, compression. Gyre::Web::Server makes one of itself and closes it. It
# serves nothing.

require "gyre/http/compression"
require "gyre/http/sendfile"
require "gyre/http/static"
require "gyre/web/folder"
require "gyre/web/health"
require "gyre/web/request_id"
require "gyre/web/settings"
require "gyre/web/trusted_proxies"

module Gyre
  module Web
    # The app as the server calls it.
    class Layers
      # @return [#call]
      attr_reader :app
      # @return [Hash{String => Object}] what each env has for them
      attr_reader :env

      # @return [Hash{Symbol => Boolean}] optional parts of HTTP that were asked for
      attr_reader :offered

      # @return [Array<String>] paths that the server answers by itself
      attr_reader :exempt
      # @return [Array<IPAddr>] trusted ones
      attr_reader :proxies

      # @param app [#call] a Rack app
      # @param log [#error]
      # @param static [Array<String, Folder>] folders whose files are sent before the app is asked
      # @param sendfile [Array<String, Folder>] folders whose files the app may name in X-Sendfile
      # @param compress [Boolean] whether its responses are compressed for clients that take it
      # @param compress_minimum [Integer] bytes of the smallest body that is compressed
      # @param request_id [Boolean] whether each request has an X-Request-Id
      # @param trusted_proxy [Array<String>] as {TrustedProxies.ranges} reads them
      # @param forwarded_header [Array<String>] of {TrustedProxies::HEADERS}
      # @param early_hints [Boolean] see HTTP::Server#initialize
      # @param extended_connect [Boolean] see HTTP::Server#initialize
      # @param health_path [String, nil] see Health
      # @param ready_path [String, nil]
      # @param unready [#call] see Health
      # @raise [ArgumentError] a folder is missing
      def initialize(app, log:, static: [], sendfile: [], compress: false, compress_minimum: Settings::COMPRESS_MINIMUM_BYTES,
                     request_id: false, trusted_proxy: [], forwarded_header: TrustedProxies::USUAL, health_path: nil, ready_path: nil,
                     early_hints: false, extended_connect: false, unready: -> {})
        @app = app
        @env = {}
        @offered = { early_hints: early_hints, extended_connect: extended_connect }
        @roots = []
        @static = nil
        @proxies = Array(trusted_proxy).flat_map { |range| TrustedProxies.ranges(range) }
        @app = HTTP::Compression.new(@app, minimum_bytes: compress_minimum) if compress
        unless sendfile.empty?
          @app = HTTP::Sendfile.new(@app, roots(sendfile), log: log)
          @env["sendfile.type"] = "X-Sendfile" # for Rack::Sendfile
        end
        @app = @static = HTTP::Static.new(@app, roots(static)) unless static.empty?
        @app = RequestId.new(@app) if request_id
        @app = TrustedProxies.new(@app, trusted_proxy, headers: forwarded_header) unless trusted_proxy.empty?
        health = Health.new(@app, health_path: health_path, ready_path: ready_path, &unready)
        @exempt = health.paths
        @app = health unless @exempt.empty?
      end

      # @return [#call, nil] whether a path is a file's that is sent without the app
      def files = @static&.method(:file?)

      # @return [void]
      def close
        @roots.each(&:close)
      end

      private

      def roots(folders)
        Array(folders).map do |value|
          folder = Folder.parse(value)
          HTTP::Files::Root.new(folder.path, **folder.options).tap { |root| @roots << root }
        end
      end
    end
  end
end
