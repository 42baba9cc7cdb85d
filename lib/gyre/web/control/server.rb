# frozen_string_literal: true

# A small HTTP server for --metrics on the same loop as a web server or supervisor. Its requests
# appear in no log or count of the app.

require "gyre/http"
require "gyre/net/endpoint"
require "gyre/web/control/app"

module Gyre
  module Web
    class ControlServer
      DEFAULT_PORT = 9394
      LIMITS = { connections_limit: 64, body_bytes_limit: 0, first_byte_timeout_s: 10, head_timeout_s: 10, write_timeout_s: 10 }.freeze
      private_constant :LIMITS

      # Parses --metrics; without a host, this machine only. Raises ArgumentError.
      def self.endpoint(address)
        address = address.sub(/\A:(?=\d+\z)/, "") if address.is_a?(String)
        Endpoint.parse(address, host: "127.0.0.1", port: DEFAULT_PORT)
      end

      # `listeners` are open; `bind` names more addresses.
      def initialize(app, log:, bind: [], listeners: [])
        @app = app
        @endpoints = Array(bind).map { |address| self.class.endpoint(address) }
        @log = log
        @listeners = listeners.dup
        @opened = @endpoints.empty?
      end

      # Opens all sockets or none.
      def listen
        @endpoints.each { |endpoint| @listeners.concat(endpoint.bind) } unless @opened
        @opened = true
        self
      rescue SystemCallError, SocketError
        close
        raise
      end

      # Serves until {#close}.
      def start
        listen
        @http = @listeners.any? && HTTP::Server.new(@app, listeners: @listeners, limits: HTTP::Limits.new(**LIMITS), log: @log).start
        self
      end

      def urls = @listeners.map(&:url)

      # May be called again.
      def close
        @http.close if @http
        @listeners.each(&:close)
      end
    end
  end
end
