# frozen_string_literal: true

# What `gyre top` shows, as lines of text: two statuses of a server in, lines out. No terminal, no
# clock. What clients have sent (paths, methods) is shown without anything that could move a cursor.

require "gyre/cli/log/paint"

module Gyre
  module CLI
    class Top < Command
      # One picture.
      class View
        PLAIN = Log::Paint.new(false)
        WORKERS = %w[WORKER PID REQ/S RUN IDLE WAIT TASKS P99 LAG MEMORY GC UP].freeze
        WIDTHS = [10, 8, 9, 5, 6, 5, 6, 9, 9, 8, 6, 8].freeze
        private_constant :PLAIN, :WORKERS, :WIDTHS

        # @param status [Hash, nil] as Gyre::Web::Control has it; nil before there is one
        # @param before [Hash, nil] an earlier one; without it, figures are of the server's whole
        #   life
        # @param error [String, nil] why there is no newer status
        # @param source [#to_s] where it comes from
        def initialize(status, before = nil, error: nil, source: nil)
          @status = status
          @error = error
          @source = source
          @former = (before ? before["workers"] : []).to_h { |worker| [worker["pid"], worker["snapshot"]] }
        end

        # @param width [Integer, nil] columns; nil: as many as it takes
        # @param height [Integer, nil] lines
        # @param paint [Log::Paint]
        # @return [Array<String>]
        def lines(width = nil, height = nil, paint = PLAIN)
          @width = width
          @paint = paint
          all = @status ? [*summary, "", *workers, "", *slowest] : [shown("gyre top: #{@source}: asking")]
          all.insert(@status ? 1 : -1, shown(@error, :red)) if @error
          height ? all.first(height) : all
        end

        private

        def snapshots = @snapshots ||= @status["workers"].filter_map { |worker| worker["snapshot"] }

        def summary
          count = @status["workers"].size
          seconds = snapshots.sum { |each| rate(each, "requests") }
          failed = snapshots.sum { |each| rate(each, "responses", "5xx") }
          [shown("gyre #{@status["version"]}  process #{@status["pid"]}  #{count} #{count == 1 ? "worker" : "workers"}  " \
                 "#{snapshots.flat_map { |each| each["urls"] || [] }.uniq.join(" ")}", :bold),
           shown("#{number(seconds)} requests/s  #{number(failed)} errors/s  p50 #{percentile("durations", 0.5)}  " \
                 "p99 #{percentile("durations", 0.99)}  lag p99 #{percentile("lag", 0.99)}  in #{size(total("received_bytes"))}/s  " \
                 "out #{size(total("sent_bytes"))}/s")]
        end

        def workers
          [row(WORKERS, :bold), *@status["workers"].map { |worker| row(worker_cells(worker)) }]
        end

        def worker_cells(worker)
          snapshot = worker["snapshot"]
          return [worker["name"], worker["pid"], worker["phase"] || "-"] unless snapshot

          connections = snapshot["connections"]
          [worker["name"], worker["pid"], number(rate(snapshot, "requests")), connections["running"], connections["idle"],
           connections["waiting"], snapshot["tasks"], percentile("durations", 0.99, [snapshot]), percentile("lag", 0.99, [snapshot]),
           snapshot["memory_bytes"] ? size(snapshot["memory_bytes"]) : "-", collecting(snapshot),
           age(snapshot["uptime_s"])]
        end

        def slowest
          running = @status["workers"].flat_map { |worker| (worker.dig("snapshot", "slowest") || []).map { |each| [worker["name"], each] } }
          running = running.sort_by { |_, each| -each["seconds"] }
          return [shown("no request is running", :dim)] if running.empty?

          [shown(format("%9s  %-8s %-40s %s", "RUNS FOR", "WORKER", "REQUEST", "FROM"), :bold),
           *running.map do |name, each|
             shown(format("%9s  %-8s %-40s %s", duration(each["seconds"]), name, "#{each["method"]} #{each["path"]}", each["remote"]),
               (:red if each["seconds"] >= 10))
           end]
        end

        def row(cells, colour = nil)
          shown(cells.each_with_index.map { |cell, index| index.zero? ? cell.to_s.ljust(WIDTHS[0]) : cell.to_s.rjust(WIDTHS[index]) }.join, colour)
        end

        # In a second, since the status before or since the server's start.
        def rate(snapshot, *path)
          former = @former[snapshot["pid"]]
          seconds = former ? snapshot["time"] - former["time"] : snapshot["uptime_s"]
          return 0.0 unless seconds.positive?

          [(snapshot.dig(*path).to_f - (former ? former.dig(*path).to_f : 0)) / seconds, 0.0].max
        end

        # The share of time that the collector takes; what it took before the server began is the
        # app's loading.
        def collecting(snapshot)
          @former[snapshot["pid"]] ? "#{(rate(snapshot, "gc", "time_s") * 100).round}%" : "-"
        end

        def total(name) = snapshots.sum { |each| rate(each, name) }

        # The bound below which this share is; "-" when there was nothing. Workers of another
        # version, during a restart, may have other bounds; they are left out.
        def percentile(name, share, of = snapshots)
          bounds = of.first&.fetch("bounds_s", nil) || []
          counts = of.filter_map { |each| since_before(each, name) if each["bounds_s"] == bounds }.transpose.map(&:sum)
          all = counts.sum
          return "-" if all.zero?

          seen = 0
          index = counts.index { |count| (seen += count) >= share * all }
          bounds[index] ? "<#{duration(bounds[index])}" : ">#{duration(bounds.last)}"
        end

        def since_before(snapshot, name)
          counts = snapshot.dig(name, "counts") || []
          former = @former.dig(snapshot["pid"], name, "counts")
          former && former.size == counts.size ? counts.zip(former).map { |now, then_| now - then_ } : counts
        end

        def duration(seconds)
          return "#{(seconds * 1_000_000).round} us" if seconds < 0.001
          return "#{short(seconds * 1000)} ms" if seconds < 1

          seconds < 100 ? "#{short(seconds)} s" : age(seconds)
        end

        def short(value) = value >= 10 || value == value.to_i ? value.round.to_s : value.round(1).to_s

        def age(seconds)
          seconds = seconds.to_i
          return "#{seconds} s" if seconds < 120
          return "#{seconds / 60} min" if seconds < 7200

          seconds < 172_800 ? "#{seconds / 3600} h" : "#{seconds / 86_400} d"
        end

        def number(value) = value >= 100 ? value.round.to_s.gsub(/(?<=\d)(?=(?:\d{3})+\z)/, ",") : value.round(1).to_s

        def size(bytes)
          unit = %w[B KB MB GB TB].find { |_| bytes < 1000 || !(bytes /= 1000.0) } || "TB"
          "#{short(bytes)} #{unit}"
        end

        # One line of the terminal, and nothing but text in it.
        def shown(text, colour = nil)
          text = text.to_s.scrub("?").gsub(/[^ -~]/, "?")
          text = text[0, @width] if @width
          @paint.call(text.rstrip, colour)
        end
      end
    end
  end
end
