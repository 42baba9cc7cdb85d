# frozen_string_literal: true

# What a connection does that brings messages: its bytes go to a stream of the ingest, and an acknowledged client is told how far they
# are durable. Gyre::Log::Connection has one of these or a Gyre::Log::Tail; it knows neither socket nor loop.

module Gyre
  module Log
    # Messages come in; at most the newest acknowledgement goes out.
    class Feed
      # @return [Session, nil]
      attr_reader :session

      # @param stream [Ingest::Stream]
      # @param session [Session, nil] of an acknowledged client
      # @param told [Integer] what the client was told before
      def initialize(stream, session = nil, told: 0)
        @stream = stream
        @session = session
        @told = told
        @ended = false
      end

      # @param bytes [String]
      # @param time_ns [Integer]
      # @return [String, nil] what is wrong
      def receive(bytes, time_ns)
        @stream.feed(bytes, time_ns)
      end

      # What has come is all; the ingest gives back what it kept.
      #
      # @return [String, nil] what is wrong with the end
      def finish(time_ns)
        return if @ended

        @ended = true
        @stream.finish(time_ns)
      end

      # @return [String, nil] what the client is to be told now
      def due
        return if @session.nil? || @told >= @session.acknowledged

        @told = @session.acknowledged
        "ack #{@told}\n"
      end

      # @return [Boolean] whether nothing of it is on its way
      def done?
        @session.nil? || (!@session.pending? && @told >= @session.acknowledged)
      end

      # Another connection of the same client goes on.
      #
      # @return [void]
      def give_up_session
        @session = nil
      end

      # @return [Integer]
      def messages
        @stream.messages
      end

      # @return [Integer] bytes of a message that has not ended
      def incomplete
        @stream.bytesize
      end

      # @return [Hash{Symbol => Object}] what a fresh process needs to go on
      def to_h
        { rest: Handover.pack(@stream.rest), client_id: @session&.client_id, told: @told, acknowledged: @session&.acknowledged.to_i }
      end
    end
  end
end
