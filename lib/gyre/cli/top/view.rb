# frozen_string_literal: true

# Renders `gyre top`: makes lines from the current and the previous status. Replaces bytes that
# could move the cursor, because paths and methods come from clients.

require "gyre/cli/terminal/figures"
require "gyre/cli/terminal/paint"

module Gyre
  module CLI
    class Top < Command
      class View
        PLAIN = Paint.new(false)
        WIDTHS = { "WORKER" => 11, "PID" => 8, "REQ/S" => 8, "RUN" => 5, "IDLE" => 5, "WAIT" => 5, "TASKS" => 6, "P99" => 8, "LAG" => 8,
                   "MEMORY" => 8, "BUDGET" => 12, "GC" => 5, "UP" => 8 }.freeze
        # Columns that narrow terminals lack, the first one first.
        SPARED = %w[BUDGET GC IDLE WAIT].freeze

        # `before`: the previous status; if nil, figures cover the server's whole life. `error`: why
        # the status could not be read.
        def initialize(status, before = nil, error: nil, server: nil)
          @status = status
          @error = error
          @server = server
          @former = (before ? before["workers"] : []).to_h { |worker| [worker["pid"], worker["snapshot"]] }
        end

        # `width`, `height`: limits, or nil.
        def lines(width = nil, height = nil, paint = PLAIN)
          @width = width
          @paint = paint
          all = @status ? [*summary, "", *workers, "", *slowest] : [shown("gyre top: #{@server}: asking")]
          all.insert(@status ? 1 : -1, shown(@error, :red)) if @error
          height ? all.first(height) : all
        end

        private

        def snapshots = @snapshots ||= @status["workers"].filter_map { |worker| worker["snapshot"] }

        def summary
          count = @status["workers"].size
          seconds = snapshots.sum { |each| rate(each, "requests") }
          failed = snapshots.sum { |each| rate(each, "responses", "5xx") }
          [*folded(["gyre #{@status["version"]}", "process #{@status["pid"]}", "#{count} #{count == 1 ? "worker" : "workers"}",
                    *snapshots.flat_map { |each| each["urls"] || [] }.uniq], :bold),
           *folded(["#{Figures.rate(seconds)} requests/s", "#{Figures.rate(failed)} errors/s", "p50 #{percentile("durations", 0.5)}",
                    "p99 #{percentile("durations", 0.99)}", "lag p99 #{percentile("lag", 0.99)}",
                    "in #{Figures.bytes(total("received_bytes"))}/s", "out #{Figures.bytes(total("sent_bytes"))}/s"]),
           *websockets, *cables]
        end

        def websockets
          return [] unless snapshots.any? { |each| each["upgrades"].to_i.positive? }

          [shown("#{snapshots.sum { |each| each["upgraded"].to_i }} WebSockets  messages in #{Figures.rate(total("messages_received"))}/s  " \
                 "out #{Figures.rate(total("messages_sent"))}/s")]
        end

        def cables
          used = snapshots.filter_map { |each| each["cable"] }
          return [] unless used.any? { |each| each["open"].positive? || each["broadcasts"].positive? }

          open, subscriptions = %w[open subscriptions].map { |name| used.sum { |each| each[name] } }
          broadcasts = snapshots.sum { |each| rate(each, "cable", "broadcasts") }
          [shown("#{open} cables  #{subscriptions} subscriptions  #{Figures.rate(broadcasts)} broadcasts/s")]
        end

        def workers = [row(WIDTHS.keys, :bold), *@status["workers"].map { |worker| row(worker_cells(worker)) }]

        def worker_cells(worker)
          snapshot = worker["snapshot"]
          return [worker["name"], worker["pid"], worker["phase"] || "-"] unless snapshot

          connections = snapshot["connections"]
          [worker["name"], worker["pid"], Figures.rate(rate(snapshot, "requests")), connections["running"], connections["idle"],
           connections["waiting"], snapshot["tasks"], percentile("durations", 0.99, [snapshot]), percentile("lag", 0.99, [snapshot]),
           snapshot["memory_bytes"] ? Figures.bytes(snapshot["memory_bytes"]) : "-", budget(snapshot), collecting(snapshot),
           Figures.age(snapshot["uptime_s"])]
        end

        def slowest
          running = @status["workers"].flat_map { |worker| (worker.dig("snapshot", "slowest") || []).map { |each| [worker["name"], each] } }
          running = running.sort_by { |_, each| -each["seconds"] }
          return [shown("no request is running", :dim)] if running.empty?

          [shown(format("%9s  %-8s %-40s %s", "RUNS FOR", "WORKER", "REQUEST", "FROM"), :bold),
           *running.map do |name, each|
             shown(format("%9s  %-8s %-40s %s", Figures.duration(each["seconds"]), name, "#{each["method"]} #{each["path"]}", each["remote"]),
               (:red if each["seconds"] >= 10))
           end]
        end

        # Returns the columns that the terminal has room for, with their widths.
        def columns
          @columns ||= SPARED.each_with_object(WIDTHS.dup) { |name, kept| kept.delete(name) if @width && kept.values.sum > @width }
        end

        def row(cells, colour = nil)
          cells = WIDTHS.keys.zip(cells.map(&:to_s)).to_h
          name, *others = columns.map { |column, width| cells[column].to_s.rjust(width) }
          shown([name.lstrip.ljust(WIDTHS["WORKER"]), *others].join, colour)
        end

        # Joins words to lines of the terminal's width.
        def folded(words, colour = nil)
          lines = words.drop(1).each_with_object([words.first.dup]) do |word, all|
            @width && all.last.size + word.size + 2 > @width ? all << word.dup : all.last << "  " << word
          end
          lines.map { |line| shown(line, colour) }
        end

        # Returns a counter's rate per second, since the previous status or the server's start.
        def rate(snapshot, *path)
          former = @former[snapshot["pid"]]
          seconds = former ? snapshot["time"] - former["time"] : snapshot["uptime_s"]
          return 0.0 unless seconds.positive?

          [(snapshot.dig(*path).to_f - (former ? former.dig(*path).to_f : 0)) / seconds, 0.0].max
        end

        # Returns the garbage collector's share of the time since the previous status, or "-".
        def collecting(snapshot) = @former[snapshot["pid"]] ? "#{(rate(snapshot, "gc", "time_s") * 100).round}%" : "-"

        # Returns the most used budget (heads, input, output or files) and its share: "heads 12%".
        def budget(snapshot)
          used = { **snapshot.fetch("buffered_bytes", {}), "files" => snapshot["files"].to_i }
          limits = { **snapshot.fetch("buffered_bytes_limit", {}), "files" => snapshot["files_limit"] }
          name, share = used.filter_map { |name, value| [name, value.fdiv(limits[name])] if limits[name] }.max_by(&:last)
          share&.positive? ? "#{name} #{(share * 100).ceil}%" : "-"
        end

        def total(name) = snapshots.sum { |each| rate(each, name) }

        # Returns the bound below which the percentile is; "-" if all counts are 0. Omits workers of
        # another version, whose bounds differ.
        def percentile(name, share, of = snapshots)
          bounds = of.first&.fetch("bounds_s", nil) || []
          counts = of.filter_map { |each| since_before(each, name) if each["bounds_s"] == bounds }.transpose.map(&:sum)
          all = counts.sum
          return "-" if all.zero?

          seen = 0
          index = counts.index { |count| (seen += count) >= share * all }
          bounds[index] ? "<#{Figures.duration(bounds[index])}" : ">#{Figures.duration(bounds.last)}"
        end

        def since_before(snapshot, name)
          counts = snapshot.dig(name, "counts") || []
          former = @former.dig(snapshot["pid"], name, "counts")
          former && former.size == counts.size ? counts.zip(former).map { |now, then_| now - then_ } : counts
        end

        # Returns one line of printable ASCII.
        def shown(text, colour = nil)
          text = text.to_s.scrub("?").gsub(/[^ -~]/, "?")
          text = text[0, @width] if @width
          @paint.call(text.rstrip, colour)
        end
      end
    end
  end
end
