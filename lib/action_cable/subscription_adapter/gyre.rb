# frozen_string_literal: true

# Action Cable's adapter `gyre` (config/cable.yml): broadcasts over Gyre::Broadcast. They reach all
# workers of the server and come from all of them, from programs beside the workers, and from all
# processes that share a Redis (Gyre::Broadcast.connect).

require "gyre/broadcast"

module ActionCable
  module SubscriptionAdapter
    class Gyre < Base
      prepend ChannelPrefix # `channel_prefix` of config/cable.yml

      # A subscriber of Gyre::Broadcast that gets a topic's messages in the publisher's thread.
      class Listener
        def initialize(map, channel)
          @map = map
          @channel = channel
        end

        def join(subscribers) = subscribers[self] = true
        def leave(subscribers) = subscribers.delete(self)
        # Returns true for each message, even if all streams send it later.
        def deliver(message) = @map.broadcast(@channel, message.data).then { true }
        def foreign? = false
        def behind? = false
      end

      # The subscribers of this process; each channel with one is a topic.
      class Map < SubscriberMap
        def initialize
          super
          @listeners = {}
        end

        def add_channel(channel, on_success)
          ::Gyre::Broadcast.subscribe(Gyre.topic(channel), @listeners[channel] = Listener.new(self, channel))
          super
        end

        def remove_channel(channel) = ::Gyre::Broadcast.unsubscribe(Gyre.topic(channel), @listeners.delete(channel))

        # Removes all.
        def close = @listeners.keys.each { |channel| remove_channel(channel) }
      end

      def self.topic(channel) = ["action_cable", channel]

      def initialize(*)
        super
        @map = Map.new
      end

      def broadcast(channel, payload) = ::Gyre::Broadcast.publish(Gyre.topic(channel), payload)

      def subscribe(channel, callback, success_callback = nil) = @map.add_subscriber(channel, callback, success_callback)

      def unsubscribe(channel, callback) = @map.remove_subscriber(channel, callback)

      def shutdown = @map.close
    end
  end
end
