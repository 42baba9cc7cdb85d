# frozen_string_literal: true

# Publish and subscribe for the WebSockets and event streams of one process. A message is framed
# once, and each subscriber takes it without waiting: a slow one never holds up others.

require "gyre/sse"
require "gyre/websocket"

module Gyre
  # Topics and their subscribers. Every method may be called from any thread.
  #
  #   Gyre::WebSocket.open(env) do |socket|
  #     Gyre::Broadcast.subscribe("chat", socket)
  #     socket.each { |message| Gyre::Broadcast.publish("chat", message) }
  #   end
  module Broadcast
    # What is published, in the form of each kind of subscriber.
    # @api private
    class Message
      def initialize(data, options)
        @data = data
        @options = options
      end

      # Compressed once for all sockets with the same window bits.
      def frame(window_bits = 0) = (@frames ||= {})[window_bits] ||= WebSocket.frame(@data, window_bits)

      def event = @event ||= SSE.format(@data, **@options).freeze
    end

    @topics = {} # topic => { subscriber => true }
    @lock = Thread::Mutex.new
    @swept = 64 # topics, after which those without subscribers are dropped

    class << self
      # Subscribes until the subscriber closes or unsubscribes.
      #
      # @param topic [Object] a key of a Hash: a String, or an Array like [:room, 5]
      # @param subscriber [WebSocket, SSE::Events]
      # @return [Boolean] false: it is closed
      def subscribe(topic, subscriber)
        @lock.synchronize do
          sweep if @topics.size > @swept
          subscriber.join(@topics[topic] ||= {}.compare_by_identity)
        end
      end

      # @param topic [Object]
      # @param subscriber [WebSocket, SSE::Events]
      # @return [nil]
      def unsubscribe(topic, subscriber)
        @lock.synchronize do
          subscribers = @topics[topic] or return
          subscriber.leave(subscribers)
          @topics.delete(topic) if subscribers.empty?
          nil
        end
      end

      # Sends a message to all subscribers of a topic, without waiting. A subscriber that has not
      # taken a megabyte of earlier ones is cut off (backlog_bytes_limit).
      #
      # @param topic [Object]
      # @param message [String] as for {WebSocket#write}; text for event streams
      # @param options [Hash] event: and id: for event streams (SSE.format)
      # @return [Integer] subscribers that it was given to
      # @raise [ArgumentError, EncodingError] for what a subscriber's protocol cannot carry, such as
      #   binary data for an event stream; no subscriber gets it
      def publish(topic, message, **options)
        subscribers = @lock.synchronize { @topics[topic]&.keys } or return 0
        message = Message.new(message, options)
        message.frame if subscribers.any?(WebSocket)
        message.event if subscribers.any?(SSE::Events)
        reached = 0
        elsewhere = subscribers.select do |subscriber|
          taken = subscriber.deliver(message)
          reached += 1 if taken
          taken.nil?
        end
        elsewhere.group_by(&:thread_calls).each do |calls, sockets|
          calls.post(-> { sockets.each { |socket| socket.deliver(message) } })
          reached += sockets.size
        rescue IOError
          next # the server has ended
        end
        reached
      end

      # @param topic [Object]
      # @return [Integer]
      def count(topic)
        @topics[topic]&.size || 0
      end

      private

      # Sockets leave by themselves as they end, and may leave topics empty.
      def sweep
        @topics.delete_if { |_, subscribers| subscribers.empty? }
        @swept = [2 * @topics.size, 64].max
      end
    end
  end
end
