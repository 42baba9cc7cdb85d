# frozen_string_literal: true

# A channel's stream without block or coder. A broadcast is encoded once for all cables with the
# same identifier, and sent to them as one frame, in place of a work for each.

module Gyre
  module Web
    module Cable
      class Stream
        # Prepended to ActionCable::Channel::Base.
        module Channel
          private

          def worker_pool_stream_handler(broadcasting, user_handler, coder: nil)
            handler = super
            usual = !user_handler && !coder && Cable.socket(connection)&.usual? &&
                    Cable.own?(self.class, :transmit, :stream_handler, :default_stream_handler, :stream_transmitter, :stream_decoder)
            usual ? Stream.new(connection, @identifier, handler) : handler
          end
        end

        # Prepended to ActionCable::SubscriptionAdapter::SubscriberMap.
        module Map
          # Each transmission is Action Cable's own while the program listens to it or logs it.
          def broadcast(channel, message)
            all = @sync.synchronize { @subscribers.key?(channel) ? @subscribers[channel].dup : [] }
            return if all.empty?

            Cable.count_broadcast
            return super if ::ActionCable.server.logger&.debug? || ::ActiveSupport::Notifications.notifier.listening?("transmit.action_cable")

            streams, others = all.partition { |each| each.is_a?(Stream) }
            texts = streams.any? ? texts(streams, message) : {}
            (texts ? others : all).each { |each| invoke_callback(each, message) }
            texts&.each { |text, some| Cable.deliver(text, some.map(&:connection)) }
          end

          private

          # Returns nil for a message that is not JSON: then each handler reports it, and the
          # publisher gets no error.
          def texts(streams, message)
            data = ::ActiveSupport::JSON.decode(message)
            streams.group_by(&:identifier).transform_keys { |identifier| ::ActiveSupport::JSON.encode(identifier: identifier, message: data) }
          rescue StandardError
            nil
          end
        end

        attr_reader :connection, :identifier

        def initialize(connection, identifier, handler)
          @connection = connection
          @identifier = identifier
          @handler = handler
        end

        def call(message) = @handler.call(message)
      end
    end
  end
end
