# frozen_string_literal: true

# Formats snapshots as text for Prometheus (OpenMetrics 1.0). Called by Gyre::Web::ControlApp, and
# by a supervisor to add the counts of ended workers.

require "gyre/web/control/snapshot"

module Gyre
  module Web
    # A family gyre_… is a sum over all workers. A family gyre_worker_… has a sample for each
    # worker. The names differ so that no query adds a sum to its parts.
    module Metrics
      TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

      # A family of metrics: name without prefix, type (:counter, :gauge or :histogram), unit, path
      # in a snapshot, help. If the value is a Hash, `label` names the label for its keys, and
      # `keys` selects some of them.
      Family = Struct.new(:name, :type, :unit, :path, :help, :label, :keys) do
        def value(snapshot)
          found = snapshot.dig(*path)
          keys && found ? found.slice(*keys) : found
        end
      end

      FAMILIES = [
        Family.new("http_requests", :counter, nil, ["requests"], "Requests whose head was taken."),
        Family.new("http_responses", :counter, nil, ["responses"],
          "Responses by class of status; none: the client left before there was one.", "class"),
        Family.new("http_request_duration_seconds", :histogram, "seconds", ["durations"],
          "From a complete head to the end of its response."),
        Family.new("http_requests_malformed", :counter, nil, ["malformed"], "Requests whose head was refused."),
        Family.new("http_requests_waiting", :gauge, nil, ["waiting"], "Requests that wait for others to end (requests_limit)."),
        Family.new("http_requests_waited", :counter, nil, ["waited"], "Requests that had to wait for others to end."),
        Family.new("http_request_queue_seconds", :histogram, "seconds", ["waits"],
          "How long requests waited for others to end, also those that left or were refused then."),
        Family.new("http_request_proxy_seconds", :histogram, "seconds", ["proxies"],
          "How long requests were at proxies before, by X-Request-Start."),
        Family.new("http_requests_shed", :counter, nil, ["shed"], "Requests that were refused because too many ran or waited."),
        Family.new("websockets", :gauge, nil, ["upgraded"], "Open WebSockets, and event streams without a fiber."),
        Family.new("websockets_opened", :counter, nil, ["upgrades"], "WebSockets that were opened."),
        Family.new("websocket_messages_received", :counter, nil, ["messages_received"], "Messages that apps have read."),
        Family.new("websocket_messages_sent", :counter, nil, ["messages_sent"], "Messages that apps have sent."),
        Family.new("broadcast_publishers_held", :counter, nil, ["publishers_held"], "Publishers that waited, as too much was unsent."),
        Family.new("websockets_cut_off", :counter, nil, ["slow_sockets"], "WebSockets whose clients took too little."),
        Family.new("cables", :gauge, nil, %w[cable open], "Open connections of Action Cable."),
        Family.new("cable_subscriptions", :gauge, nil, %w[cable subscriptions], "Subscriptions of these to channels."),
        Family.new("cable_broadcasts", :counter, nil, %w[cable broadcasts], "Broadcasts of Action Cable that a worker passed to its cables."),
        Family.new("http_received_bytes", :counter, "bytes", ["received_bytes"], "Received from clients, without TLS's own."),
        Family.new("http_sent_bytes", :counter, "bytes", ["sent_bytes"], "Sent to clients, without TLS's own."),
        Family.new("http_connections", :gauge, nil, ["connections"],
          "Open connections: with a running request, idle, with a request that is not complete, or hijacked by the app.", "state",
          %w[running idle waiting hijacked]),
        Family.new("http_connections_accepted", :counter, nil, ["accepted"], "Connections that were accepted."),
        Family.new("http_connections_refused", :counter, nil, ["refused"], "Connections and requests beyond a limit of the whole server."),
        Family.new("http_buffered_bytes", :gauge, "bytes", ["buffered_bytes"],
          "Memory of heads, of requests' bodies and of responses that wait.", "budget"),
        Family.new("http_buffered_bytes_limit", :gauge, nil, ["buffered_bytes_limit"],
          "What it may be: heads_bytes_limit, input_bytes_limit, output_bytes_limit.", "budget"),
        Family.new("http_files", :gauge, nil, ["files"], "Files that are being sent."),
        Family.new("http_files_limit", :gauge, nil, ["files_limit"], "How many there may be."),
        Family.new("http_client_responses", :counter, nil, %w[client responses],
          "Responses to requests of Gyre::HTTP::Client, by class of status; error: there was none.", "class"),
        Family.new("http_client_request_duration_seconds", :histogram, "seconds", %w[client durations],
          "From a request of Gyre::HTTP::Client to the end of its response."),
        Family.new("http_client_connections_opened", :counter, nil, %w[client opened], "Connections that Gyre::HTTP::Client has opened."),
        Family.new("tls_handshakes", :counter, nil, ["handshakes"], "TLS handshakes."),
        Family.new("tls_handshakes_resumed", :counter, nil, ["handshakes_resumed"], "TLS handshakes that resumed a session."),
        Family.new("tls_handshakes_failed", :counter, nil, ["handshakes_failed"], "TLS handshakes that failed or took too long."),
        Family.new("tls_certificate_expiry_timestamp_seconds", :gauge, "seconds", ["certificate_expires"],
          "When the first of the certificates in use ends, in Unix time."),
        Family.new("log_lines_dropped", :counter, nil, ["dropped_log_lines"],
          "Lines of the access log dropped because its reader was too slow."),
        *{ queries: "Requests over any transport.", answers: "Responses from zones.", asked: "Questions that rules answered.",
           malformed: "Requests that got FORMERR.", refused: "Requests that got REFUSED.", dropped: "Requests without an answer.",
           truncated: "Responses that did not fit.", limited: "Responses beyond rate_limit.", overload: "Questions beyond waiting_limit.",
           unsent: "Responses that the kernel did not take.", cache_hits: "Forwarded questions that the cache answered.",
           cache_misses: "Those that it could not answer.", cache_stale: "Those answered beyond the answer's time (stale_s)." }
          .map { |name, help| Family.new("dns_#{name}", :counter, nil, ["dns", name.to_s], help) },
        Family.new("dns_waiting", :gauge, nil, %w[dns waiting], "Rules that run or wait."),
        Family.new("dns_cache_entries", :gauge, nil, %w[dns cache_entries], "Answers in the cache."),
        Family.new("dns_cache_bytes", :gauge, "bytes", %w[dns cache_bytes], "Memory of the cache, about."),
        Family.new("dns_connections", :gauge, nil, %w[dns connections], "Open connections of TCP and TLS."),
        Family.new("loop_lag_seconds", :histogram, "seconds", ["lag"], "Delay of ready events by the loop."),
        Family.new("tasks", :gauge, nil, ["tasks"], "Fibers at work: running requests and other tasks."),
        Family.new("threads", :gauge, nil, ["threads"], "Threads of the process."),
        Family.new("gc_runs", :counter, nil, %w[gc count], "Runs of the garbage collector."),
        Family.new("gc_seconds", :counter, "seconds", %w[gc time_s], "Time in the garbage collector."),
        Family.new("gc_live_slots", :gauge, nil, %w[gc live_slots], "Objects on the heap."),
        Family.new("gc_heap_bytes", :gauge, "bytes", %w[gc heap_bytes], "Pages of the object heap."),
        Family.new("memory_bytes", :gauge, "bytes", ["memory_bytes"], "Resident memory; shared pages count in each process."),
        Family.new("uptime_seconds", :gauge, "seconds", ["uptime_s"], "Since the server was made; of the sums, of the oldest worker."),
        Family.new("report_age_seconds", :gauge, "seconds", ["report_age_s"],
          "How old the worker's figures are; of the sums, the oldest ones.")
      ].each(&:freeze).freeze
      # Families whose total is the highest or lowest value of a worker, not a sum.
      PICKED = { "uptime_seconds" => :max, "report_age_seconds" => :max, "tls_certificate_expiry_timestamp_seconds" => :min }.freeze

      class << self
        # `ended`: counts of ended workers, which are added so that sums never fall.
        def text(snapshots, ended: nil)
          out = +""
          info(out, snapshots)
          FAMILIES.each do |family|
            by_worker = snapshots.transform_values { |snapshot| family.value(snapshot) }.compact
            next if by_worker.empty?

            write(out, "gyre_", family, [[{}, total(family, by_worker.values, ended)]])
            write(out, "gyre_worker_", family, by_worker.map { |name, value| [{ "worker" => name }, value] })
          end
          out << "# EOF\n"
        end

        # True for a valid snapshot. (An invalid one would make {text} fail for all workers.)
        def readable?(snapshot)
          snapshot.is_a?(Hash) && FAMILIES.all? { |family| fits?(family, family.value(snapshot)) }
        rescue TypeError, NoMethodError, ArgumentError
          false # another type where a Hash is expected
        end

        # Adds the counts of two snapshots. A supervisor keeps the sum of all ended workers.
        def add(sum, snapshot)
          FAMILIES.reject { |family| family.type == :gauge }.each_with_object({}) do |family, both|
            values = [sum, snapshot].compact.filter_map { |each| family.value(each) }
            *way, last = family.path
            way.reduce(both) { |hash, key| hash[key] ||= {} }[last] = values.reduce { |one, other| plus(one, other) } if values.any?
          end
        end

        private

        def fits?(family, value)
          return true if value.nil?
          return value.is_a?(Hash) && value.each_value.all?(Numeric) if family.label
          return value.is_a?(Numeric) unless family.type == :histogram

          counts = value["counts"]
          counts.is_a?(Array) && counts.size == Snapshot::BOUNDS_S.size + 1 && counts.all?(Numeric) && value["sum_s"].is_a?(Numeric)
        end

        def total(family, values, ended)
          return values.public_send(PICKED[family.name]) if PICKED.key?(family.name)

          gone = family.value(ended) if ended && family.type != :gauge
          [*values, *[gone].compact].reduce { |one, other| plus(one, other) }
        end

        def plus(one, other)
          case one
          when Hash  then one.merge(other) { |_, left, right| plus(left, right) }
          when Array then one.zip(other).map(&:sum)
          else one + other
          end
        end

        # Writes versions as a gauge: Prometheus's older format does not have the type "info".
        def info(out, snapshots)
          first = snapshots.each_value.first
          labels = { "version" => first ? first["version"] : VERSION, "ruby" => first ? first["ruby"] : RUBY_VERSION }
          out << "# TYPE gyre_info gauge\n# HELP gyre_info The server's version and Ruby's.\ngyre_info#{words(labels)} 1\n" \
                 "# TYPE gyre_workers gauge\n# HELP gyre_workers Processes that serve.\ngyre_workers #{snapshots.size}\n"
        end

        def write(out, prefix, family, samples)
          name = "#{prefix}#{family.name}"
          out << "# TYPE #{name} #{family.type}\n"
          out << "# UNIT #{name} #{family.unit}\n" if family.unit
          out << "# HELP #{name} #{family.help}\n"
          samples.each { |labels, value| sample(out, name, family, labels, value) }
        end

        def sample(out, name, family, labels, value)
          return histogram(out, name, labels, value) if family.type == :histogram

          name = "#{name}_total" if family.type == :counter
          return out << "#{name}#{words(labels)} #{number(value)}\n" unless family.label

          value.each { |key, part| out << "#{name}#{words(labels.merge(family.label => key))} #{number(part)}\n" }
        end

        def histogram(out, name, labels, value)
          sum = 0
          value["counts"].each_with_index do |count, index|
            bound = Snapshot::BOUNDS_S[index]
            out << "#{name}_bucket#{words(labels.merge("le" => bound ? number(bound) : "+Inf"))} #{sum += count}\n"
          end
          out << "#{name}_sum#{words(labels)} #{number(value["sum_s"])}\n" << "#{name}_count#{words(labels)} #{sum}\n"
        end

        def number(value) = value.is_a?(Integer) ? value.to_s : value.to_f.round(9).to_s

        def words(labels)
          return "" if labels.empty?

          "{#{labels.map { |name, value| "#{name}=\"#{value.to_s.gsub(/[\\"\n]/, "\\" => "\\\\", '"' => '\\"', "\n" => "\\n")}\"" }.join(",")}}"
        end
      end
    end
  end
end
