# frozen_string_literal: true

# Passes a connection's messages to a decoder of the ingest, and acknowledges durable records. A
# Gyre::Log::Connection has a Feed or a Gyre::Log::Follower; neither uses a socket or loop.

module Gyre
  module Log
    class Feed
      attr_reader :session

      # `sent` is the last acknowledgement of a former process.
      def initialize(decoder, session = nil, sent: 0)
        @decoder, @session, @sent = decoder, session, sent
        @ended = false
      end

      def receive(bytes, time_ns) = @decoder.feed(bytes, time_ns)

      # Ends the input, whose rest the ingest returns. Returns nil or the fault.
      def finish(time_ns)
        return if @ended

        @ended = true
        @decoder.finish(time_ns)
      end

      def due
        return if @session.nil? || @sent >= @session.acknowledged

        @sent = @session.acknowledged
        "ack #{@sent}\n"
      end

      # True if all its records are acknowledged.
      def done? = @session.nil? || (!@session.pending? && @sent >= @session.acknowledged)

      # Leaves the session to the client's next connection.
      def detach_session
        @session = nil
      end

      def messages = @decoder.messages

      def incomplete = @decoder.bytesize

      def to_h
        { rest: @decoder.rest, client_id: @session&.client_id, sent: @sent, acknowledged: @session&.acknowledged.to_i }
      end
    end
  end
end
