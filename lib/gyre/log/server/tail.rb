# frozen_string_literal: true

# What a connection does that follows the log: finished lines, as they come. They wait in a bounded
# sink; what a slow reader does not take is dropped, counted, and reported in the stream.
# Gyre::Log::Connection has one of these or a Gyre::Log::Feed.

module Gyre
  module Log
    # Lines go out; what comes in is ignored.
    class Tail
      # @return [Integer] lines given out
      attr_reader :messages

      # @param ingest [Ingest]
      # @param service [String] empty: every service
      # @param limit [Integer] bytes
      def initialize(ingest, service, limit)
        @ingest = ingest
        @sink = ingest.sink(format: :text, limit: limit)
        ingest.tap(@sink, service.empty? ? nil : service)
        @reported = @messages = 0
      end

      def receive(_bytes, _time_ns); end

      def finish(_time_ns)
        @ingest.untap(@sink)
        @sink.take
        nil
      end

      # @return [String, nil] the lines since the last call
      def due
        dropped = @sink.dropped - @reported
        @reported += dropped
        @messages += @sink.lines
        lines, = @sink.take
        return lines if dropped.zero?

        "#{lines}#{Units.count(dropped, "line was", "lines were")} dropped here: this reader is too slow\n".b
      end

      def done? = true

      def session; end

      def detach_session; end

      def incomplete = 0

      # @return [Hash{Symbol => Object}] what a fresh process needs to continue
      def to_h = { rest: due.to_s }
    end
  end
end
