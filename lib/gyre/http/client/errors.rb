# frozen_string_literal: true

# Errors of the HTTP client. They contain method, address, phase and cause, but no credentials or
# queries. A task's own deadlines and stops are not wrapped.

require "gyre/net"

module Gyre
  module HTTP
    class Client
      # A request failed.
      class Error < Gyre::Error
        # @return [String] "GET"
        attr_reader :request_method
        # @return [String] without credentials and query
        attr_reader :url
        # @return [Symbol] :pool, :connect, :send, :body, :redirect or :status
        attr_reader :phase

        # @param message [String]
        # @param request_method [String]
        # @param url [String]
        # @param phase [Symbol]
        def initialize(message, request_method = nil, url = nil, phase = nil)
          super([[request_method, url].compact.join(" "), message].reject(&:empty?).join(": "))
          @request_method = request_method
          @url = url
          @phase = phase
        end
      end

      # The connection could not be made, or it failed.
      class ConnectionError < Error; end

      # A time limit has passed.
      class TimeoutError < Error; end

      # The server broke HTTP; the connection is closed.
      class ProtocolError < Error; end

      # The body exceeds body_bytes_limit, encoded or decoded.
      class TooLargeError < Error; end

      # The client does not follow a redirect beyond redirects_limit, from https to http, with an
      # invalid address, or with a body that cannot be sent again.
      class RedirectError < Error; end

      # The server's address is private, and private_addresses is false.
      class PrivateAddressError < Error; end

      # {Response#check}: the status is 400 or higher.
      class StatusError < Error
        # @return [Response]
        attr_reader :response

        # @param response [Response]
        def initialize(response, *rest)
          super("the server responded with #{response.status}", *rest, :status)
          @response = response
        end
      end

      # Errors of connections; {.wrap} turns them into {Error}s.
      # @api private
      FAILURES = [SystemCallError, IOError, SocketError, Gyre::TimeoutError, Gyre::ProtocolError, TLS::Error].freeze

      # Returns the error that the caller gets. A task's own deadline is returned unchanged.
      # @api private
      def self.wrap(error, request, phase)
        return error if error.is_a?(Error) || (error.is_a?(Gyre::TimeoutError) && error.deadline)

        kind = case error
               when Gyre::TimeoutError, Errno::ETIMEDOUT then TimeoutError
               when Net::Connector::NotAllowed then PrivateAddressError
               when Gyre::ProtocolError then ProtocolError
               else ConnectionError
               end
        _, advice = ADVICE.find { |words, _| error.message.match?(words) }
        advice = " (#{request.until_s && Clock.now >= request.until_s ? "timeout_s" : "connect_timeout_s"})" if error.message.match?(/ [\d.]+ s\z/)
        kind.new("#{phase}: #{error.message}#{advice}", request.method, request.url, phase)
      end

      ADVICE = { /wrong version number/ => ". If the server has no TLS, write http://",
                 /self-signed|local issuer/ => ". For an authority of your own: Gyre::HTTP::Client.new(tls: Gyre::TLS.client(ca: path))" }.freeze
      private_constant :ADVICE

      # Raised by a body if its source raises. The caller gets the source's exception (`cause`).
      # @api private
      SourceFailed = Class.new(StandardError)

      # Raised by a connection if the request got no response. Never reaches the caller.
      # @api private
      class Unanswered < StandardError
        # `processed`: the server may have processed the request.
        def initialize(error, processed)
          super(error.message)
          @error, @processed = error, processed
        end

        attr_reader :error

        def processed? = @processed
      end
    end
  end
end
