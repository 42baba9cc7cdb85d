# frozen_string_literal: true

# Every size, count and time that bounds an HTTP/1 connection, and what happens beyond it. The
# acceptor reads a Limits object when a server starts; the command line, the DSL and the docs are
# made from TABLE (see net/limits.rb). It enforces nothing by itself.

require "gyre/net/limits"

module Gyre
  module HTTP
    # What may cancel a request: nothing, its client's reset of the connection, or also the end of
    # the client's side.
    DEPARTURES = %w[none reset closed].freeze

    # The limits of one server. Zero is a meaningful size for a body, its trailers, its rate,
    # what is read off, running and waiting requests, and for nothing else.
    # Where no status is named the connection just closes.
    Limits = Gyre::Limits.with_table(
      Gyre::Limits.row(:request_line_bytes_limit, 8_192, :bytes, "the request line with its line end", status: 414),
      Gyre::Limits.row(:header_count_limit, 128, :count, "header lines of a request", status: 431),
      Gyre::Limits.row(:header_bytes_limit, 65_536, :bytes, "all header lines of a request together", status: 431),
      Gyre::Limits.row(:body_bytes_limit, 64 * 1024 * 1024, :bytes, "the body of a request, decoded", status: 413, minimum: 0),
      Gyre::Limits.row(:trailer_bytes_limit, 16_384, :bytes, "the trailer lines after a chunked body", status: 431, minimum: 0),
      Gyre::Limits.row(:unread_body_bytes_limit, 65_536, :bytes,
                       "what is read off of a body that the app left unread, to keep the connection", minimum: 0),
      Gyre::Limits.row(:handshake_timeout_s, 10, :seconds, "from accepting a connection to the end of its TLS handshake"),
      Gyre::Limits.row(:first_byte_timeout_s, 30, :seconds, "from accepting a connection to its first byte", status: 408),
      Gyre::Limits.row(:head_timeout_s, 30, :seconds, "from the first byte of a request to the end of its head", status: 408),
      Gyre::Limits.row(:read_timeout_s, 30, :seconds, "between two pieces of a request's body", status: 408),
      Gyre::Limits.row(:body_timeout_s, 3600, :seconds, "for all the waiting for a request's body", status: 408),
      Gyre::Limits.row(:body_grace_timeout_s, 10, :seconds, "of waiting for a request's body before its rate counts", status: 408),
      Gyre::Limits.row(:body_rate_bytes_limit, 240, :bytes,
                       "what a request's body has to bring in a second of waiting, on average; 0: anything", status: 408, minimum: 0),
      Gyre::Limits.row(:body_ahead_bytes_limit, 262_144, :bytes,
                       "what has to be there of a request's body before it takes one of requests_limit's places", minimum: 0),
      Gyre::Limits.row(:input_bytes_limit, 64 * 1024 * 1024, :bytes,
                       "the memory of all bodies of requests together that apps have not read", status: 503),
      Gyre::Limits.row(:response_rate_bytes_limit, 240, :bytes,
                       "what a client has to take of its response in a second of waiting, on average; 0: anything", minimum: 0),
      Gyre::Limits.row(:output_bytes_limit, 64 * 1024 * 1024, :bytes,
                       "the memory of all responses together that clients have not taken; beyond it apps wait for them"),
      Gyre::Limits.row(:files_limit, 500, :count, "files that are sent at a time", status: 503),
      Gyre::Limits.row(:unread_body_timeout_s, 5, :seconds, "for the rest of a body that the app left unread"),
      Gyre::Limits.row(:write_timeout_s, 30, :seconds, "for a client that takes nothing of its response"),
      Gyre::Limits.row(:keep_alive_timeout_s, 75, :seconds, "for an idle connection until its next request"),
      Gyre::Limits.row(:linger_timeout_s, 2, :seconds, "for a refused client, and in HTTP/2 any, to take the last response and close"),
      Gyre::Limits.row(:keep_alive_requests_limit, 1_000_000, :count, "requests on one connection"),
      Gyre::Limits.row(:heads_bytes_limit, 64 * 1024 * 1024, :bytes, "the memory of all heads together that have come in part",
                       status: 503),
      Gyre::Limits.row(:connections_limit, 20_000, :count, "open connections of a server", status: 503),
      Gyre::Limits.row(:requests_limit, 0, :count,
                       "requests that run at a time, the others wait; 0: all at once, or with Active Record as many as its pool has", minimum: 0),
      Gyre::Limits.row(:request_timeout_s, nil, :seconds, "for the app to respond to a request, without the time of waiting for the client",
                       status: 503),
      Gyre::Limits.row(:queue_limit, 1_000, :count, "requests that wait until others have ended", status: 503, minimum: 0),
      Gyre::Limits.row(:queue_timeout_s, 30, :seconds, "for a request to wait until others have ended", status: 503),
      Gyre::Limits.row(:streams_limit, 100, :count, "in HTTP/2, streams of a connection at once; more are refused"),
      Gyre::Limits.row(:stream_resets_limit, 200, :count,
                       "in HTTP/2, streams that a client may have reset; a tenth of them is regained each second"),
      Gyre::Limits.row(:control_frames_limit, 2_000, :count,
                       "in HTTP/2, frames without a request or a body (PING, SETTINGS, WINDOW_UPDATE, ...), at once and each second"),
      Gyre::Limits.row(:stream_window_bytes_limit, 262_144, :bytes, "in HTTP/2, what is held of a request's body that the app has not read"),
      Gyre::Limits.row(:connection_window_bytes_limit, 1_048_576, :bytes, "in HTTP/2, the same of all requests of a connection"),
      Gyre::Limits.row(:stream_output_bytes_limit, 65_536, :bytes, "in HTTP/2, what is held of a response that its client does not take")
    )
  end
end
