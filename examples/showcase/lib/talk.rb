# frozen_string_literal: true

# Lines that all visitors write to each other: over a WebSocket both ways, and as server-sent events
# for listeners. An idle WebSocket holds no fiber here.

require "gyre/broadcast"
require "gyre/sse"
require "gyre/websocket"

module Showcase
  # GET /talk: the WebSocket. GET /talk?ID: the events of a listener; POST /talk?ID cuts it off.
  class Talk
    TOPIC = "talk"
    MESSAGE_BYTES_LIMIT = 1000
    LINES_KEPT = 50
    RETRY_S = 2

    def initialize
      Gyre::Broadcast.keep(TOPIC, LINES_KEPT)
    end

    def call(env)
      listener = [:talk, env["QUERY_STRING"]]
      return cut(listener) if env["REQUEST_METHOD"] == "POST"
      return Gyre::WebSocket.open(env, self, message_bytes_limit: MESSAGE_BYTES_LIMIT) if Gyre::WebSocket.requested?(env)

      Gyre::SSE.open(env, retry_s: RETRY_S) do |events|
        Gyre::Broadcast.subscribe(TOPIC, events, as: listener)
        events.listen # first sends the lines that a page has missed
      end
    end

    def on_open(socket)
      Gyre::Broadcast.subscribe(TOPIC, socket)
    end

    def on_message(socket, message)
      return socket.close(1003, "text only") if message.encoding == Encoding::BINARY

      Gyre::Broadcast.publish(TOPIC, message)
    end

    private

    # The browser connects again after RETRY_S.
    def cut(listener)
      Gyre::Broadcast.disconnect(listener)
      [204, {}, []]
    end
  end
end
