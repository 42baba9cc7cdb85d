# frozen_string_literal: true

# Limits of the log server and its connections: sizes, counts and times. Other files enforce them.

require "gyre/settings/limits"

module Gyre
  module Log
    row = Gyre::Settings.method(:row)
    megabyte = 1 << 20

    # Gyre::Log::Limits.new(connections_limit: 50).connections_limit # => 50
    Limits = Gyre::Settings::Limits.of(
      row[:connections_limit, :count, "open connections; a further one gets an error line and is closed", default: 10_000],
      row[:authentication_timeout_s, :timeout, "from accepting a connection to its first whole frame, with the TLS handshake", default: 10],
      row[:idle_timeout_s, :timeout, "for an authenticated connection without a byte"],
      row[:linger_timeout_s, :timeout, "for a refused client to take the error line and close", default: 2],
      row[:stop_timeout_s, :timeout, "for writing and syncing everything at the end, and before a restart", default: 30],
      row[:message_bytes_limit, :bytes, "one syslog message, JSON line or record (for records at least 1M); also a connection's input buffer",
          default: megabyte],
      row[:memory_bytes_limit, :bytes, "messages in memory, except for stuck outputs; beyond it reading stops until half is written",
          default: 64 * megabyte],
      row[:spill_bytes_limit, :bytes, "messages on disk for one output with when_full: spill; beyond it, it blocks", default: 1024 * megabyte],
      row[:tailers_limit, :count, "connections that follow the log", default: 100],
      row[:tail_bytes_limit, :bytes, "lines kept for a follower that is too slow; further ones are dropped and counted", default: megabyte],
      row[:services_limit, :count, "services that are counted by name", default: 1_000],
      row[:complaints_limit, :count, "log lines a second about mistakes of clients; the rest is counted", default: 20],
      foreign: { queue_bytes_limit: "write queue for each log", frame_bytes_limit: "leave it out: it is Analogger's",
                 sessions_limit: "leave it out: it is 10000" }
    )
  end
end
