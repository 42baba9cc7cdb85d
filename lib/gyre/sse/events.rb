# frozen_string_literal: true

# An open event stream. Like a WebSocket it has left HTTP, but it sends text without frames
# (ext/gyre/websocket/). Made by SSE.respond. Runs none of the app's code.

require "gyre/broadcast"

module Gyre
  module SSE
    # One open stream. Any fiber or thread may call its methods.
    class Events < WebSocket
      private :each, :ping, :protocol

      # @return [String, nil] the id of the last event that the page has seen, as it connects again
      attr_reader :last_event_id

      # @api private
      def self.begin(exchange, session, wants, limits, last_event_id)
        events = take_over(exchange, session, wants, limits, nil, nil, true)
        events.instance_variable_set(:@last_event_id, last_event_id) if last_event_id
      end

      # Sends an event; waits while the client is slow.
      # @param data [#to_s]
      # @param options (see Gyre::SSE.format)
      # @return [self]
      # @raise [WebSocket::ClosedError] the client is gone, or the stream was closed
      def write(data, **options) = tap { transmit(SSE.format(data, **options)) }
      alias << write

      # Sends a comment, which the page does not see.
      # @param text [String] one line
      # @return [self]
      # @raise (see #write)
      def comment(text = "") = tap { transmit(":#{text.tr("\r\n", " ")}\n\n") }

      # Sends the events of kept topics that the client has missed ({Broadcast.keep}). Then waits
      # until the client has left or is too slow, or {#close} is called.
      # @return [nil]
      # @raise (see #write)
      def listen
        catch_up
        read
      end

      # @api private
      def catch_up
        while (texts = @reading&.more)
          return close if texts == :gap # when the page reconnects, Broadcast.subscribe returns :gap

          transmit(texts)
        end
      end

      # Called by {Broadcast} under the history's lock. Returns :gap if events are missing.
      # @api private
      def follow(history, topic) = (@reading ||= Broadcast::History::Reading.new(history, @last_event_id)).follow(topic)

      # @api private
      def deliver(message)
        text = @reading && message.order ? @reading.text(message) : message.event
        text ? offer(text) : true
      rescue EncodingError
        false # binary data, published in another process
      end

      # @api private
      def label = "an event stream"
    end
  end
end
