# frozen_string_literal: true

# Event streams that only listen to topics: each leaves HTTP like a WebSocket and holds no fiber
# (ext/gyre/websocket/). SSE.open makes one. Runs none of the app's code.

require "gyre/broadcast"

module Gyre
  module SSE
    # One response.
    # @api private
    class Listening
      # The open stream, as a subscriber.
      class Listener < WebSocket
        include Stream

        # Bytes that a client has not taken are limited as for {Events}, and by the server's budget.
        def self.open(exchange, heartbeat_s)
          limits = WebSocket::Limits.new(idle_timeout_s: 2 * heartbeat_s, backlog_bytes_limit: Events::BACKLOG_BYTES_LIMIT)
          take_over(exchange, nil, 0, limits, nil, nil)
        end

        def deliver(message)
          offer(message.event)
        rescue EncodingError
          false # binary data, published in another process
        end

        def label = "an event stream"
      end
      private_constant :Listener

      def initialize(topics, as, opening, heartbeat_s)
        @topics = topics
        @as = as
        @opening = opening
        @heartbeat_s = heartbeat_s
      end

      def without_fiber? = !Broadcast.keeps?(@topics)

      def with_fiber(events)
        subscribe(events)
        events.listen
      end

      def leave_http(exchange)
        exchange.write_body(@opening)
        subscribe(Listener.open(exchange, @heartbeat_s))
      end

      private

      def subscribe(subscriber) = @topics.each { |topic| Broadcast.subscribe(topic, subscriber, as: @as) }
    end
  end
end
