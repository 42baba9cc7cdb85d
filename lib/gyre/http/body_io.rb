# frozen_string_literal: true

# The argument of a streaming body (Rack SPEC, "Streaming Body"). Made by Response. Reads from
# rack.input and writes to the Response, with the socket's backpressure. Buffers nothing.

require "forwardable"
require "gyre/http/errors"

module Gyre
  module HTTP
    # Reads the request's body and writes the response's body.
    class BodyIO
      extend Forwardable

      # @param input [Input, Input::Empty]
      # @param output [Response] receives write and finish
      def initialize(input, output)
        @input = input
        @output = output
        @reading = @writing = true
        @closed = Thread::Queue.new
      end

      # IO's `read(length = nil, buffer = nil)`, `readpartial(length, buffer = nil)`, `gets`.
      def_delegators :reader, :read, :readpartial, :gets
      alias read_partial readpartial

      # @yieldparam line [String]
      # @return [self, Enumerator]
      def each(&block)
        return enum_for(:each) unless block

        reader.each(&block)
        self
      end

      # Writes Strings; waits while the client is slow.
      # @param strings [Array<#to_s>]
      # @return [Integer] bytes written
      # @raise [Errno::EPIPE, Errno::ECONNRESET, WriteTimeout] the client is gone
      # @raise [IOError] closed for writing
      def write(*strings)
        raise IOError, "not opened for writing" unless @writing

        strings.sum { |string| @output.write(string.to_s) }
      rescue SystemCallError, WriteTimeout
        @closed.close
        raise
      end

      # @param string [#to_s]
      # @return [self]
      def <<(string)
        write(string)
        self
      end

      # Does nothing: writes are not buffered.
      # @return [self]
      def flush
        raise IOError, "not opened for writing" unless @writing

        self
      end

      # @return [nil]
      def close_read
        @reading = false
        nil
      end

      # Ends the response.
      # @return [nil]
      def close_write
        return unless @writing

        @writing = false
        @output.finish
        nil
      ensure
        @closed.close
      end

      # Ends both directions. May be called again.
      # @return [nil]
      def close
        close_read
        close_write
      end

      # Waits until the writing side is closed, by whichever thread or fiber keeps the stream.
      # @return [nil]
      def await_close = @closed.pop

      # Ends a stream whose response is over, so that later writes raise.
      # @return [nil]
      def leave
        @reading = @writing = false
        nil
      end

      # @return [Boolean]
      def closed? = !@reading && !@writing

      private

      def reader
        raise IOError, "not opened for reading" unless @reading

        @input
      end
    end
  end
end
