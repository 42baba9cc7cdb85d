# frozen_string_literal: true

# What a connection does that brings messages: its bytes go to a decoder of the ingest, and an
# acknowledged client is sent how far they are durable. Gyre::Log::Connection has one of these or a
# Gyre::Log::Tail; both are without socket and loop.

module Gyre
  module Log
    # Messages come in; at most the newest acknowledgement goes out.
    class Feed
      # @return [Session, nil]
      attr_reader :session

      # @param decoder [Ingest::Decoder, JSONDecoder]
      # @param session [Session, nil] of an acknowledged client
      # @param sent [Integer] the acknowledgement that was sent before
      def initialize(decoder, session = nil, sent: 0)
        @decoder, @session, @sent = decoder, session, sent
        @ended = false
      end

      # @param bytes [String]
      # @param time_ns [Integer]
      # @return [String, nil] what is wrong
      def receive(bytes, time_ns) = @decoder.feed(bytes, time_ns)

      # What has come is all; the ingest gives back what it kept.
      #
      # @return [String, nil] what is wrong with the end
      def finish(time_ns)
        return if @ended

        @ended = true
        @decoder.finish(time_ns)
      end

      # @return [String, nil] what is to be sent now
      def due
        return if @session.nil? || @sent >= @session.acknowledged

        @sent = @session.acknowledged
        "ack #{@sent}\n"
      end

      # @return [Boolean] whether nothing of it is on its way
      def done? = @session.nil? || (!@session.pending? && @sent >= @session.acknowledged)

      # The session belongs to another connection of the same client now.
      def detach_session
        @session = nil
      end

      # @return [Integer]
      def messages = @decoder.messages

      # @return [Integer] bytes of a message that has not ended
      def incomplete = @decoder.bytesize

      # @return [Hash{Symbol => Object}] what a fresh process needs to continue
      def to_h
        { rest: @decoder.rest, client_id: @session&.client_id, sent: @sent, acknowledged: @session&.acknowledged.to_i }
      end
    end
  end
end
