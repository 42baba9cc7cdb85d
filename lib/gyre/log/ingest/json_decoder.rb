# frozen_string_literal: true

# A connection's lines of JSON on their way through the ingest. Lines are cut, bounded and counted
# in C like every other input (ext/gyre/log/log_decoder.c); this reads each whole one with the json
# library. Made by Gyre::Log::Ingest#decoder. It keeps nothing.

require "gyre/log/ingest/json_lines"

module Gyre
  module Log
    # See Gyre::Log::Ingest: a decoder.
    class JSONDecoder
      # @return [Integer] messages that were cut from it
      attr_reader :messages

      # @param lines [Ingest::Decoder] that cuts
      def initialize(lines)
        @lines = lines
        @messages = 0
      end

      # @return [Integer] bytes of the incomplete line
      def bytesize = @lines.bytesize

      # @return [String] the incomplete line; another decoder continues when it is fed with it
      def rest = @lines.rest

      # @param bytes [String] what has come
      # @param time_ns [Integer]
      # @return [String, nil] what is wrong
      def feed(bytes, time_ns) = @lines.feed(bytes, time_ns).tap { deliver(time_ns) }

      # What has come is all.
      #
      # @return [String, nil] what is wrong
      def finish(time_ns) = @lines.finish(time_ns).tap { deliver(time_ns) }

      private

      def deliver(time_ns)
        @lines.take_lines&.each_line("\n", chomp: true) do |line|
          service, severity, message = JSONLines.parse(line)
          next unless service

          @messages += 1
          @lines.deliver(service, severity, message, time_ns)
        end
      end
    end
  end
end
