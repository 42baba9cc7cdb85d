# frozen_string_literal: true

# Limits of a web server and its connections. `status` is sent if a limit is exceeded.

require "gyre/websocket/limits"

module Gyre
  module HTTP
    row = Gyre::Settings.method(:row)
    megabyte = 1 << 20

    # If an exceeded limit has no status, the connection closes, unless the row says otherwise.
    Limits = Gyre::Settings::Limits.of(
      row[:request_line_bytes_limit, :bytes, "the request line with its line end", default: 8_192, status: 414],
      row[:header_count_limit, :count, "header lines of a request", default: 128, status: 431],
      row[:header_bytes_limit, :bytes, "all header lines of a request together", default: 65_536, status: 431],
      row[:body_bytes_limit, :bytes, "the body of a request, decoded", default: 64 * megabyte, status: 413, range: 0..],
      row[:trailer_bytes_limit, :bytes, "the trailer lines after a chunked body", default: 16_384, status: 431, range: 0..],
      row[:unread_body_bytes_limit, :bytes, "body that the app left unread and that is read to keep the connection", default: 65_536, range: 0..],
      row[:handshake_timeout_s, :timeout, "from accepting a connection to the end of its TLS handshake", default: 10],
      row[:first_byte_timeout_s, :timeout, "from accepting a connection to its first byte", default: 30, status: 408],
      row[:head_timeout_s, :timeout, "from the first byte of a request to the end of its head", default: 30, status: 408],
      row[:read_timeout_s, :timeout, "between two pieces of a request's body", default: 30, status: 408],
      row[:body_timeout_s, :timeout, "all the time spent waiting for a request's body", default: 3600, status: 408],
      row[:body_grace_timeout_s, :timeout, "waiting for a request's body before its rate counts", default: 10, status: 408],
      row[:body_rate_bytes_limit, :bytes, "least rate of a request's body per second of waiting; 0: any", default: 240, status: 408, range: 0..],
      row[:body_ahead_bytes_limit, :bytes, "body that must be there before a request takes a place of requests_limit", default: 262_144, range: 0..],
      row[:input_bytes_limit, :bytes, "memory of all request bodies that apps have not read", default: 64 * megabyte, status: 503],
      row[:response_rate_bytes_limit, :bytes, "least rate at which a client takes its response, per second; 0: any", default: 240, range: 0..],
      row[:output_bytes_limit, :bytes, "memory of all responses that clients have not taken; beyond it apps wait", default: 64 * megabyte],
      row[:files_limit, :count, "files that are sent at a time", default: 500, status: 503],
      row[:unread_body_timeout_s, :timeout, "for the rest of a body that the app left unread", default: 5],
      row[:write_timeout_s, :timeout, "for a client that takes nothing of its response", default: 30],
      row[:keep_alive_timeout_s, :timeout, "for an idle connection until its next request", default: 75],
      row[:linger_timeout_s, :timeout,
          "for a client to take the last response and close; up to 15 times as long while it sends the rest of a body", default: 2],
      row[:keep_alive_requests_limit, :count, "requests on one connection", default: 1_000_000],
      row[:heads_bytes_limit, :bytes, "memory of all incomplete heads", default: 64 * megabyte, status: 503],
      row[:connections_limit, :count, "open connections of a server", default: 20_000, status: 503],
      row[:requests_limit, :count, "requests that run at a time; others wait; 0: all, or with Active Record as many as its pool has",
          default: 0, range: 0..],
      row[:request_timeout_s, :timeout, "for the app to respond, without the time spent waiting for the client", status: 503],
      row[:queue_limit, :count, "requests that wait for others to end", default: 1_000, status: 503, range: 0..],
      row[:queue_timeout_s, :timeout, "for a request to wait for others to end", default: 30, status: 503],
      row[:streams_limit, :count, "HTTP/2: concurrent streams of a connection; more are refused", default: 100],
      row[:stream_resets_limit, :count, "HTTP/2: streams that a client may have reset; a tenth is regained each second", default: 200],
      row[:control_frames_limit, :count, "HTTP/2: frames without a request or a body (PING, SETTINGS, ...), at once and per second", default: 2_000],
      row[:stream_window_bytes_limit, :bytes, "HTTP/2: buffered body of a request that the app has not read", default: 262_144],
      row[:connection_window_bytes_limit, :bytes, "HTTP/2: the same for all requests of a connection", default: megabyte],
      *WebSocket::Limits::TABLE.map { |each| row[:"websocket_#{each.name}", each.type, "WebSockets: #{each.meaning}", default: each.default, range: each.range] }
    )

    # Each row is a setting, with a reader of its name.
    class Limits
      # Returns the limits of WebSockets, which Gyre::WebSocket.open may change.
      # @return [Hash{Symbol => Object}] by the names of {WebSocket::Limits}
      def websocket = WebSocket::Limits::TABLE.to_h { |each| [each.name, public_send(:"websocket_#{each.name}")] }
    end
  end
end
