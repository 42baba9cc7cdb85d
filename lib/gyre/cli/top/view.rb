# frozen_string_literal: true

# Renders `gyre top`: makes lines from the current and the previous status. Replaces bytes that
# could move the cursor, because paths and methods come from clients.

require "gyre/cli/terminal/figures"
require "gyre/cli/terminal/paint"
require "gyre/web/control/figure"

module Gyre
  module CLI
    class Top < Command
      class View
        PLAIN = Paint.new(false)
        NAME_WIDTH = 11
        PID_WIDTH = 8

        # `before`: the previous status; if nil, figures cover the server's whole life. `error`: why
        # the status could not be read. `routes`: shows routes and tasks, not workers and requests.
        def initialize(status, before = nil, error: nil, server: nil, routes: false)
          @routes = routes
          @status = status
          @error = error
          @server = server
          @former = (before ? before["workers"] : []).to_h { |worker| [worker["pid"], worker["snapshot"]] }
        end

        # `width`, `height`: limits, or nil.
        def lines(width = nil, height = nil, paint = PLAIN)
          @width = width
          @paint = paint
          all = @status ? [*summary, "", *(@routes ? routes : [*workers, "", *slowest])] : [shown("gyre top: #{@server}: asking")]
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

        def workers
          all = columns
          heads = row("WORKER", "PID", all, all.map(&:heading), :bold)
          [heads, *@status["workers"].map { |worker| row(worker["name"], worker["pid"], all, cells(worker, all)) }]
        end

        def cells(worker, columns)
          snapshot = worker["snapshot"]
          snapshot ? columns.map { |column| send(column.way, snapshot, column.path) } : [worker["phase"] || "-"]
        end

        # Returns the columns that the terminal has room for.
        def columns
          spared = Web::Figure::COLUMNS.select(&:spared).sort_by(&:spared)
          spared.each_with_object(Web::Figure::COLUMNS.dup) do |column, kept|
            kept.delete(column) if @width && kept.sum(NAME_WIDTH + PID_WIDTH, &:width) > @width
          end
        end

        def row(name, pid, columns, cells, colour = nil)
          cells = columns.zip(cells).map { |column, cell| cell.to_s.rjust(column.width) }
          shown([name.to_s.ljust(NAME_WIDTH), pid.to_s.rjust(PID_WIDTH), *cells].join, colour)
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

        # Headings and widths; narrow terminals lack the last ones.
        ROUTE_COLUMNS = [["CPU", 6], ["REQ/S", 9], ["CPU/REQ", 10], ["BLOCKED", 9], ["LONGEST", 10], ["OBJECTS/S", 11]].freeze
        ROUTE_WIDTH = 20 # that a route has at least
        private_constant :ROUTE_COLUMNS, :ROUTE_WIDTH

        # Of all workers, the most CPU first.
        def routes
          labels = snapshots.flat_map { |each| (each.dig("routes", "cpu_s") || {}).keys }.uniq
          rows = labels.map { |label| [label, *%w[cpu_s requests blocked_s allocations].map { |name| total("routes", name, label) }] }
          columns = route_columns
          [shown(route_row(columns, columns.map(&:first), "ROUTE OR TASK"), :bold),
           *rows.sort_by { |label, cpu,| [-cpu, label] }.map { |row| shown(route_row(columns, route_cells(*row), row.first)) }]
        end

        def route_columns
          count = ROUTE_COLUMNS.size
          count -= 1 while @width && count > 2 && ROUTE_COLUMNS.first(count).sum(ROUTE_WIDTH + 2, &:last) > @width
          ROUTE_COLUMNS.first(count)
        end

        def route_cells(label, cpu, requests, blocked, objects)
          longest = snapshots.filter_map { |each| each.dig("routes", "longest_s", label) }.max
          counts = requests.zero? ? %w[- -] : [Figures.rate(requests), Figures.duration(cpu / requests)]
          ["#{(cpu * 100).round}%", *counts, "#{(blocked * 100).round}%", longest ? Figures.duration(longest) : "-", Figures.rate(objects)]
        end

        # Omits the middle of a label that is too long, because its ends tell more.
        def route_row(columns, cells, label)
          room = @width && [@width - columns.sum(2, &:last), 5].max
          label = "#{label[0, room / 3]}..#{label[-(room - 2 - (room / 3))..]}" if room && label.size > room
          "#{columns.zip(cells).map { |(_, width), cell| cell.rjust(width) }.join}  #{label}"
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

        # --- ways of columns ---

        def itself_at(snapshot, path) = snapshot.dig(*path)

        def per_second(snapshot, path) = Figures.rate(rate(snapshot, *path))

        def most(snapshot, path) = percentile(path.first, 0.99, [snapshot])

        def bytes(snapshot, path) = snapshot.dig(*path)&.then { |bytes| Figures.bytes(bytes) } || "-"

        def age(snapshot, path) = Figures.age(snapshot.dig(*path))

        # Returns the share of the time since the previous status, or "-".
        def busy(snapshot, path) = @former[snapshot["pid"]] ? "#{(rate(snapshot, *path) * 100).round}%" : "-"

        # Returns the most used budget (heads, input, output or files) and its share: "heads 12%".
        def budget(snapshot, _path)
          used = { **snapshot.fetch("buffered_bytes", {}), "files" => snapshot["files"].to_i }
          limits = { **snapshot.fetch("buffered_bytes_limit", {}), "files" => snapshot["files_limit"] }
          name, share = used.filter_map { |name, value| [name, value.fdiv(limits[name])] if limits[name] }.max_by(&:last)
          share&.positive? ? "#{name} #{(share * 100).ceil}%" : "-"
        end

        def total(*path) = snapshots.sum { |each| rate(each, *path) }

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
