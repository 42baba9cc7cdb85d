# frozen_string_literal: true

# A server's state at one moment, as values for JSON. Made by Gyre::Web::Server#snapshot for
# /metrics, /status, `gyre top` and a supervisor.

require "gyre/http"
require "gyre/http/tally"
require "gyre/inspection/memory"
require "gyre/version"
require "gyre/web/control/figure"
require "gyre/web/frameworks/cable"

module Gyre
  module Web
    # A Hash with String keys: the figures of {Figure::ALL} at their paths, and
    #
    #   version, ruby, pid, time (Unix seconds), fibers
    #   urls         where it listens
    #   connections  also open
    #   bounds_s     {BOUNDS_S}, of the histograms: counts (not cumulative; one more than bounds_s), sum_s
    #   cable        nil without Action Cable
    #   routes       {Gyre::Loop.usage}, without zeros: requests, cpu_s, blocked_s, allocations and
    #                longest_s, each a Hash by route or task
    #   cache        nil without a cache
    #   certificates_missing   with ACME: names whose first certificate has not come
    #   slowest      up to {SLOWEST} running requests, the oldest first: method, path, seconds,
    #                remote; without query strings, which may hold secrets
    module Snapshot
      # Upper bounds of the histograms' buckets, in seconds.
      BOUNDS_S = (HTTP.const_defined?(:NativeAcceptor) ? HTTP::NativeAcceptor.duration_bounds : []).freeze
      # Counters before the server listens.
      ZEROES = Figure::ALL.select { |figure| figure.type == :counter && figure.path.one? && !figure.label }.to_h { |figure| [figure.path.first, 0] }
      SLOWEST = 10
      PATH_BYTES_LIMIT = 200

      class << self
        # `http`: the HTTP::Server; nil before the server listens.
        def take(server, http, lifetime)
          stats = server.stats
          { **ZEROES, "version" => VERSION, "ruby" => RUBY_VERSION, "pid" => Process.pid, "uptime_s" => lifetime.uptime_s.round(3),
            "time" => Time.now.to_f.round(3), "urls" => server.urls, "bounds_s" => BOUNDS_S,
            "certificate_expires" => server.certificate_expires&.to_i, "connections" => connections(stats),
            "dropped_log_lines" => server.dropped_log_lines, "report_age_s" => 0.0 }
            .merge!(counts(stats), http ? http.measurements : {}, process(lifetime.scheduler))
            .merge!("client" => HTTP::Tally.snapshot, "cable" => Cable.figures,
                    "slowest" => http ? http.oldest(SLOWEST).map { |env, seconds| request(env, seconds) } : [])
        end

        private

        def connections(stats)
          open, idle, running = stats.values_at(:connections, :idle, :running)
          { "open" => open + stats[:away], "idle" => idle, "running" => running, "waiting" => [open - idle - running, 0].max,
            "hijacked" => stats[:away] }
        end

        def counts(stats) = (stats.keys - %i[connections idle running away]).to_h { |name| [name.to_s, stats[name]] }

        def process(scheduler)
          loop_stats = scheduler && !scheduler.closed? ? scheduler.stats : {}
          { "tasks" => loop_stats.fetch(:tasks, 0), "fibers" => loop_stats.fetch(:tasks, 0) + loop_stats.fetch(:idle_fibers, 0),
            "threads" => Thread.list.size, "gc" => gc, "memory_bytes" => Memory.resident_bytes, "routes" => routes(scheduler) }
        end

        def routes(scheduler)
          rows = scheduler && !scheduler.closed? ? scheduler.usage : {}
          rows.each_with_object({}) do |(label, row), all|
            row.each { |name, value| (all[name.to_s] ||= {})[label] = value.round(6) unless value.zero? }
          end
        end

        def gc
          { "count" => GC.count, "time_s" => GC.stat(:time) / 1000.0, "live_slots" => GC.stat(:heap_live_slots),
            "heap_bytes" => GC.stat(:heap_allocated_pages) * GC::INTERNAL_CONSTANTS.fetch(:HEAP_PAGE_SIZE, 65_536) }
        end

        def request(env, seconds)
          target = env["REQUEST_URI"].to_s
          path = target.partition("?").first.byteslice(0, PATH_BYTES_LIMIT)
          { "method" => text(env["REQUEST_METHOD"]), "path" => text(path), "seconds" => seconds.round(3),
            "remote" => text(env["REMOTE_ADDR"]) }
        end

        # Converts a value to valid UTF-8, because an app may put any object into its env.
        def text(value) = value.to_s.dup.force_encoding(Encoding::UTF_8).scrub
      end
    end
  end
end
