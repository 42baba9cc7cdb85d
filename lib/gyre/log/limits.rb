# frozen_string_literal: true

# Every size, count and time that bounds the log server and its connections. The server reads a
# Limits object when it starts; configuration and docs are made from TABLE (gyre/net/limits.rb). It
# enforces nothing by itself.

require "gyre/net/limits"

module Gyre
  module Log
    # The limits of one server.
    #
    #   Gyre::Log::Limits.new(connections_limit: 50).connections_limit # => 50
    Limits = Gyre::Limits.with_table(
      Gyre::Limits.row(:connections_limit, 10_000, :count, "open connections; a further one gets an error line and is closed"),
      Gyre::Limits.row(:authentication_timeout_s, 10, :seconds, "from accepting a connection to its whole first frame, with the TLS handshake"),
      Gyre::Limits.row(:idle_timeout_s, nil, :seconds, "for an authenticated connection without a byte; none: for ever"),
      Gyre::Limits.row(:linger_timeout_s, 2, :seconds, "for a refused client to take the error line and close"),
      Gyre::Limits.row(:stop_timeout_s, 30, :seconds, "for writing and syncing all at the end, and before a restart"),
      Gyre::Limits.row(:frame_bytes_limit, 8_192, :bytes, "a frame of the old wire has fewer (Analogger's own limit; four digits carry 9999)"),
      Gyre::Limits.row(:message_bytes_limit, 1_048_576, :bytes,
                       "one syslog message, JSON line or record (these have 1M at least); while one is incomplete, " \
                       "it is all that a connection keeps"),
      Gyre::Limits.row(:memory_bytes_limit, 67_108_864, :bytes,
                       "messages in memory, without those for outputs that accept nothing; beyond it nothing is read until half is written"),
      Gyre::Limits.row(:queue_bytes_limit, 33_554_432, :bytes, "messages in memory for one output; `when_full` decides about what comes then"),
      Gyre::Limits.row(:spill_bytes_limit, 1_073_741_824, :bytes, "messages on disk for one output with `when_full: spill`; beyond it, it blocks"),
      Gyre::Limits.row(:tailers_limit, 100, :count, "connections that follow the log"),
      Gyre::Limits.row(:tail_bytes_limit, 1_048_576, :bytes, "lines kept for one that follows too slowly; further ones are dropped and counted"),
      Gyre::Limits.row(:services_limit, 1_000, :count, "services that are counted by name"),
      Gyre::Limits.row(:sessions_limit, 10_000, :count, "acknowledged clients remembered in memory while they are away"),
      Gyre::Limits.row(:complaints_limit, 20, :count, "log lines a second about what clients did wrong; the rest is counted")
    )
  end
end
