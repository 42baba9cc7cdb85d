# frozen_string_literal: true

# Limits of the HTTP client and its connections: sizes, counts, times.

require "gyre/settings/limits"

module Gyre
  module HTTP
    class Client
      row = Gyre::Settings.method(:row)
      megabyte = 1 << 20

      # Keywords of {Client#initialize}.
      Limits = Gyre::Settings::Limits.of(
        row[:connections_limit, :count, "open connections of an origin and a loop", default: 64],
        row[:idle_connections_limit, :count, "idle connections of all origins together, in a loop", default: 100],
        row[:streams_limit, :count, "HTTP/2: concurrent requests on a connection", default: 100],
        row[:pool_timeout_s, :timeout, "for a request to wait for a connection", default: 30],
        row[:connect_timeout_s, :timeout, "for a connection, with its name, its proxy and its TLS handshake", default: 10],
        row[:head_timeout_s, :timeout, "from the end of a request to the end of the response's head", default: 60],
        row[:read_timeout_s, :timeout, "between two pieces of a response's body", default: 60],
        row[:write_timeout_s, :timeout, "for a server that takes nothing of a request", default: 60],
        row[:timeout_s, :timeout, "for the whole request, with redirects, retries and the body"],
        row[:keep_alive_timeout_s, :timeout, "for an idle connection until its next request", default: 60],
        row[:body_bytes_limit, :bytes, "the body of a response, decoded, unless it is streamed", default: 64 * megabyte, range: 0..],
        row[:header_count_limit, :count, "header lines of a response", default: 128, range: 1..256],
        row[:header_bytes_limit, :bytes, "all header lines of a response together", default: 65_536],
        row[:body_rate_bytes_limit, :bytes, "least rate of a response's body, per second, after 10 s; 0: any", default: 0, range: 0..],
        row[:redirects_limit, :count, "redirects that a request follows", default: 5, range: 0..],
        row[:retry_after_s, :timeout, "longest Retry-After (429, 503) after which GET, HEAD or OPTIONS is sent again; nil: never"],
        row[:retries_limit, :count, "times that a request is sent again, where that is safe", default: 2, range: 0..]
      )
    end
  end
end
