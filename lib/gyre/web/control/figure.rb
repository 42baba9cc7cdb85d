# frozen_string_literal: true

# The figures of a server: one row each, from which /metrics, the columns of `gyre top` and the
# table of docs/observe.md follow. Counters of the acceptor (C) get into snapshots and /status by
# name.

module Gyre
  module Web
    # `name`: of the metric, without prefix; its end is the unit. `type`: :counter, :gauge or
    # :histogram. `path`: in a snapshot. If the value is a Hash, `label` names the label for its
    # keys, and `keys` selects some of them. `total`: how workers' values become one; nil: a sum.
    Figure = Struct.new(:name, :type, :path, :help, :label, :keys, :total) do
      def self.row(name, type, path, help, label: nil, keys: nil, total: nil)
        new(name, type, path.split("."), help, label, keys, total).freeze
      end

      # Routes times workers would be too many series.
      def summed? = label == "route"

      def unit = name[/(?:seconds|bytes)\z/]

      def value(snapshot)
        found = snapshot.dig(*path)
        keys && found ? found.slice(*keys) : found
      end
    end

    row = Figure.method(:row)
    Figure::ALL = [
      row["http_requests", :counter, "requests", "Requests with an accepted head."],
      row["http_responses", :counter, "responses", "Responses by class of status; none: the client left before there was one.", label: "class"],
      row["http_request_duration_seconds", :histogram, "durations",
          "From a complete head to the end of its response, with the wait for a busy loop; without upgraded and hijacked connections."],
      row["http_requests_malformed", :counter, "malformed", "Requests whose head was refused."],
      row["http_requests_waiting", :gauge, "waiting", "Requests and works of cables that wait for others to end (requests_limit)."],
      row["http_requests_waited", :counter, "waited", "Requests and works of cables that had to wait for others to end."],
      row["http_request_queue_seconds", :histogram, "waits", "How long requests waited for others to end, also those that left or were refused."],
      row["http_request_proxy_seconds", :histogram, "proxies", "How long requests were at proxies before, by X-Request-Start."],
      row["http_requests_shed", :counter, "shed", "Requests that were refused because too many ran or waited."],
      row["websockets", :gauge, "upgraded", "Open WebSockets, and event streams without a fiber."],
      row["websockets_opened", :counter, "upgrades", "WebSockets that were opened."],
      row["websocket_messages_received", :counter, "messages_received", "Messages that apps have read."],
      row["websocket_messages_sent", :counter, "messages_sent", "Messages that apps have sent."],
      row["broadcast_publishers_held", :counter, "publishers_held", "Publishers that waited, as too much was unsent."],
      row["websockets_cut_off", :counter, "slow_sockets", "WebSockets whose clients took too little."],
      row["cables", :gauge, "cable.open", "Open connections of Action Cable on the server's sockets."],
      row["cable_subscriptions", :gauge, "cable.subscriptions", "Subscriptions of these to channels."],
      row["cable_broadcasts", :counter, "cable.broadcasts",
          "Broadcasts of Action Cable that a worker passed to its cables; each worker counts its own."],
      row["http_received_bytes", :counter, "received_bytes",
          "Received from clients, without TLS's own; a WebSocket counts at its end, or when metrics are read."],
      row["http_sent_bytes", :counter, "sent_bytes",
          "Sent to clients, without TLS's own; a long response counts at its end, or when metrics are read."],
      row["http_connections", :gauge, "connections",
          "Open connections: with a running request, idle, with a request or handshake that is not complete, or hijacked by the app.",
          label: "state", keys: %w[running idle waiting hijacked]],
      row["http_connections_accepted", :counter, "accepted", "Connections that were accepted."],
      row["http_connections_refused", :counter, "refused", "Connections and requests beyond a limit of the whole server."],
      row["http_buffered_bytes", :gauge, "buffered_bytes", "Memory of heads, of requests' bodies and of responses that wait.", label: "budget"],
      row["http_buffered_bytes_limit", :gauge, "buffered_bytes_limit",
          "What it may be: heads_bytes_limit, input_bytes_limit, output_bytes_limit.", label: "budget"],
      row["http_files", :gauge, "files", "Files that are being sent."],
      row["http_files_limit", :gauge, "files_limit", "How many there may be."],
      row["http_cache_hits", :counter, "cache.hits", "Requests that the cache answered (--cache)."],
      row["http_cache_misses", :counter, "cache.misses", "Those that it passed to the app, though it may keep responses to such requests."],
      row["http_cache_bytes", :gauge, "cache.bytes", "Memory of kept responses, about."],
      row["http_client_responses", :counter, "client.responses",
          "Responses to requests of Gyre::HTTP::Client, by class of status; error: there was none.", label: "class"],
      row["http_client_request_duration_seconds", :histogram, "client.durations",
          "From a request of Gyre::HTTP::Client to the end of its response."],
      row["http_client_connections_opened", :counter, "client.opened", "Connections that Gyre::HTTP::Client has opened."],
      row["tls_handshakes", :counter, "handshakes", "TLS handshakes."],
      row["tls_handshakes_resumed", :counter, "handshakes_resumed", "TLS handshakes that resumed a session."],
      row["tls_handshakes_failed", :counter, "handshakes_failed", "TLS handshakes that failed or took too long."],
      row["tls_certificate_expiry_timestamp_seconds", :gauge, "certificate_expires",
          "When the first of the certificates in use ends, in Unix time.", total: :min],
      row["log_lines_dropped", :counter, "dropped_log_lines", "Lines of the access log dropped because its reader was too slow."],
      *{ queries: "Requests over any transport.", answers: "Responses from zones.", asked: "Questions that rules answered.",
         malformed: "Requests that got FORMERR.", refused: "Requests that got REFUSED.", dropped: "Requests without an answer.",
         truncated: "Responses that did not fit.", limited: "Responses beyond rate_limit.", overload: "Questions beyond waiting_limit.",
         unsent: "Responses that the kernel did not take.", cache_hits: "Forwarded questions that the cache answered.",
         cache_misses: "Those that it could not answer.", cache_stale: "Those answered beyond the answer's time (stale_s)." }
        .map { |name, help| row["dns_#{name}", :counter, "dns.#{name}", help] },
      row["dns_waiting", :gauge, "dns.waiting", "Rules that run or wait."],
      row["dns_cache_entries", :gauge, "dns.cache_entries", "Answers in the cache."],
      row["dns_cache_bytes", :gauge, "dns.cache_bytes", "Memory of the cache, about."],
      row["dns_connections", :gauge, "dns.connections", "Open connections of TCP and TLS."],
      row["route_requests", :counter, "routes.requests", "Requests that have ended, by route.", label: "route"],
      row["route_cpu_seconds", :counter, "routes.cpu_s", "CPU, by route or task; (loop): the server's own, (threads): of other threads.",
          label: "route"],
      row["route_blocked_seconds", :counter, "routes.blocked_s", "How long code kept the loop without CPU, at least 0.1 ms at a time.",
          label: "route"],
      row["route_allocations", :counter, "routes.allocations", "Objects that were made.", label: "route"],
      row["loop_lag_seconds", :histogram, "lag", "Delay of ready events by the loop; if it grows, something blocks the loop."],
      row["tasks", :gauge, "tasks", "Fibers at work: running requests and other tasks."],
      row["threads", :gauge, "threads", "Threads of the process."],
      row["gc_runs", :counter, "gc.count", "Runs of the garbage collector."],
      row["gc_seconds", :counter, "gc.time_s", "Time in the garbage collector."],
      row["gc_live_slots", :gauge, "gc.live_slots", "Objects on the heap."],
      row["gc_heap_bytes", :gauge, "gc.heap_bytes", "Pages of the object heap."],
      row["memory_bytes", :gauge, "memory_bytes", "Resident memory (Linux); shared pages count in each process."],
      row["uptime_seconds", :gauge, "uptime_s", "Since the server was made; of the sums, of the oldest worker.", total: :max],
      row["report_age_seconds", :gauge, "report_age_s",
          "How old a worker's figures are: it reports once a second, unless its loop is blocked; of the sums, the oldest ones.", total: :max]
    ].freeze

    # A column of `gyre top`: `way` is a method of its View that takes a snapshot and the figure's
    # path. Narrow terminals lack the columns with `spared`, the lowest first.
    Figure::Column = Struct.new(:heading, :width, :way, :path, :spared)
    Figure::COLUMNS = [
      ["REQ/S", 8, :per_second, %w[requests]], ["RUN", 5, :itself_at, %w[connections running]], ["IDLE", 5, :itself_at, %w[connections idle], 3],
      ["WAIT", 5, :itself_at, %w[connections waiting], 4], ["TASKS", 6, :itself_at, %w[tasks]], ["P99", 8, :most, %w[durations]],
      ["LAG", 8, :most, %w[lag]], ["MEMORY", 8, :bytes, %w[memory_bytes]], ["BUDGET", 12, :budget, %w[buffered_bytes], 1],
      ["GC", 5, :busy, %w[gc time_s], 2], ["UP", 8, :age, %w[uptime_s]]
    ].map { |column| Figure::Column.new(*column).freeze }.freeze
  end
end
