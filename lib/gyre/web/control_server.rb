# frozen_string_literal: true

# A small HTTP server for Control on addresses of its own (--metrics), beside a web server or in a
# supervisor, on the same loop. Its requests are in no log and no count of the app's.

require "gyre/http"
require "gyre/net/endpoint"
require "gyre/web/control"

module Gyre
  module Web
    # See the head of this file; used once.
    class ControlServer
      DEFAULT_PORT = 9394
      LIMITS = { connections_limit: 64, body_bytes_limit: 0, first_byte_timeout_s: 10, head_timeout_s: 10, write_timeout_s: 10 }.freeze
      private_constant :LIMITS

      # An address where --metrics may listen: without a host, this machine only.
      #
      # @param address [String, Integer, Endpoint]
      # @return [Endpoint]
      # @raise [ArgumentError]
      def self.endpoint(address)
        text = address.is_a?(Endpoint) ? address : address.to_s.sub(/\A:(?=\d+\z)/, "")
        Endpoint.parse(text, host: "127.0.0.1", port: DEFAULT_PORT)
      end

      # @param app [#call] a Control, or an app around one
      # @param bind [Array<String, Endpoint>] see {.endpoint}
      # @param log [#error]
      # @param listeners [Array<Gyre::Listener>] open already, beside what bind names
      def initialize(app, log:, bind: [], listeners: [])
        @app = app
        @endpoints = Array(bind).map { |address| self.class.endpoint(address) }
        @log = log
        @listeners = listeners.dup
        @opened = @endpoints.empty?
      end

      # Opens the sockets.
      #
      # @return [self]
      # @raise [SystemCallError, SocketError] none is open then
      def listen
        @endpoints.each { |endpoint| @listeners.concat(endpoint.bind) } unless @opened
        @opened = true
        self
      rescue SystemCallError, SocketError
        close
        raise
      end

      # Serves from now on, on the loop of this thread, until {#close}.
      #
      # @return [self]
      def start
        listen
        @http = @listeners.any? && HTTP::Server.new(@app, listeners: @listeners, limits: HTTP::Limits.new(**LIMITS), log: @log).start
        self
      end

      # @return [Array<String>]
      def urls = @listeners.map(&:url)

      # Closes sockets and connections. May be called again.
      #
      # @return [void]
      def close
        @http.close if @http
        @listeners.each(&:close)
      end
    end
  end
end
