# frozen_string_literal: true

# What a connection does that follows the log: finished lines, as they come. They wait in a bounded sink; what a slow reader does not
# take is dropped, counted, and told in the stream. Gyre::Log::Connection has one of these or a Gyre::Log::Feed; it knows neither
# socket nor loop.

module Gyre
  module Log
    # Lines go out; what comes in is ignored.
    class Tail
      # @param ingest [Ingest]
      # @param service [String] empty: every service
      # @param limit [Integer] bytes
      def initialize(ingest, service, limit)
        @ingest = ingest
        @service = service
        @sink = ingest.sink(format: :text, limit: limit)
        ingest.tap(@sink, service.empty? ? nil : service)
        @told = @lines = 0
      end

      # @return [nil] there is nothing that could be wrong
      def receive(_bytes, _time_ns); end

      # @return [nil]
      def finish(_time_ns)
        @ingest.untap(@sink)
        @sink.take
        nil
      end

      # @return [String, nil] the lines since the last time
      def due
        dropped = @sink.dropped - @told
        @told += dropped
        @lines += @sink.lines
        lines, = @sink.take
        return lines if dropped.zero?

        "#{lines}#{dropped} #{dropped == 1 ? "line was" : "lines were"} dropped here: this reader is too slow\n".b
      end

      # @return [Boolean] nothing has to be told before it ends
      def done?
        true
      end

      # @return [nil]
      def session; end

      # @return [Integer] lines given out
      def messages
        @lines
      end

      # @return [Integer]
      def incomplete
        0
      end

      # @return [Hash{Symbol => Object}] what a fresh process needs to go on
      def to_h
        { rest: Handover.pack(due.to_s) }
      end
    end
  end
end
