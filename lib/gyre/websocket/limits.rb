# frozen_string_literal: true

# Limits of a WebSocket: keywords of Gyre::WebSocket.open and, as websocket_…, limits of the server
# (http/limits.rb). C enforces them.

require "gyre/settings/limits"

module Gyre
  class WebSocket
    row = Gyre::Settings.method(:row)

    # Sizes and times.
    Limits = Gyre::Settings::Limits.of(
      row[:message_bytes_limit, :bytes, "a message; a longer one closes the socket with 1009", default: 1 << 20],
      row[:output_bytes_limit, :bytes, "bytes that the client has not taken; beyond it writers wait", default: 65_536],
      row[:backlog_bytes_limit, :bytes, "the same for broadcasts; beyond it a client that is too slow is cut off", default: 1 << 20],
      row[:backlog_timeout_s, :timeout, "for a client that much waits for to take backlog_bytes_limit of it", default: 5],
      row[:idle_timeout_s, :timeout, "for a client that sends nothing, not even the answer to the ping after half of it", default: 60],
      row[:close_timeout_s, :timeout, "for a client to answer a close", default: 5],
      foreign: %i[tls proxy cookies basic bearer socket http2].to_h do |name|
        [name, "to connect, write client: Gyre::HTTP::Client.new(http2: false, #{name}: …)"]
      end
    )
  end
end
