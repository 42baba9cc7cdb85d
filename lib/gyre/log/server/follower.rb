# frozen_string_literal: true

# Sends finished lines to a connection that follows the log. Lines wait in a bounded sink; a slow
# reader's are dropped, counted, and reported in the stream.

module Gyre
  module Log
    class Follower
      attr_reader :messages

      # An empty `service` means all.
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

      def to_h = { rest: due.to_s }
    end
  end
end
