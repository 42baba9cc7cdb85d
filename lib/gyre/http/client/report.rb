# frozen_string_literal: true

# Phases, bytes and reuse of one request, for a client's `instrument:` callback and for Tally. Made
# only if there is a callback or Tally is counting.

require "gyre/clock"
require "gyre/http/tally"

module Gyre
  module HTTP
    class Client
      # An ended or failed request. Times are seconds since the request's start.
      class Report
        # @return [Integer, nil] nil if there was no response
        attr_reader :status
        # @return [String, nil] "HTTP/1.1" or "HTTP/2"
        attr_reader :protocol
        # @return [Boolean, nil] whether the connection had served a request before
        attr_reader :reused
        # @return [Exception, nil]
        attr_reader :error
        # @return [Integer] times that the request was sent, not counting redirects
        attr_reader :attempts
        # @return [Integer] encoded bytes of the body
        attr_reader :received_bytes
        # @return [Float, nil] seconds until connected, until the head, until the end
        attr_reader :connected_s, :head_s, :total_s

        # @api private
        def initialize(request, callback)
          @name = request.name
          @callback = callback
          @began_s = Clock.now
          @attempts = @received_bytes = 0
        end

        # @api private
        def connected(connection)
          @attempts += 1
          @reused = connection.used?
          @protocol = connection.protocol
          @connected_s = Clock.now - @began_s
        end

        # @api private
        def head = @head_s = Clock.now - @began_s

        # @api private
        def finish(outcome, received_bytes = 0)
          outcome.is_a?(Exception) ? @error = outcome : @status = outcome.status
          @received_bytes = received_bytes
          @total_s = Clock.now - @began_s
          Tally.add(self) if Tally.counting?
          @callback&.call(self)
        end

        # @return [String]
        def request_method = @name.first

        # @return [String] without credentials and query
        def url = @name.last

        # @return [String] a line for a log
        def to_s
          parts = ["#{request_method} #{url}", status || error.class, protocol, (reused ? "kept" : "new"),
                   ("#{attempts} attempts" if attempts > 1), "#{received_bytes} bytes", "#{(total_s * 1000).round(1)} ms"]
          parts.compact.join(" ")
        end
      end
    end
  end
end
