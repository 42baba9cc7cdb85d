# frozen_string_literal: true

# Formats a log server's status as text, which Status prints. Connects to nothing.

require "gyre/cli/terminal/figures"
require "gyre/settings/units"

module Gyre
  module CLI
    module Log
      class Report
        # Maximum rows in the table of clients, and in that of services; they show the busiest.
        ROWS = 10

        def initialize(status, address, paint, columns)
          @status = harmless(status, paint)
          @address = address.to_s.delete_prefix("tcp://")
          @paint = paint
          @columns = columns
        end

        def lines = [heading, *figures, *outputs, *clients, *services]

        private

        # The server's texts come from its clients.
        def harmless(value, paint)
          case value
          when String then paint.harmless(value)
          when Array then value.map { |each| harmless(each, paint) }
          when Hash then value.to_h { |key, each| [paint.harmless(key), harmless(each, paint)] }
          else value
          end
        end

        def heading
          @paint.call("gyre log #{@status["version"]} at #{@address}, process #{@status["pid"]}, up #{Figures.age(@status["uptime_s"])}", :bold)
        end

        def figures
          rates = @status.fetch("rates", {}).map { |seconds, rate| "#{Figures.rate(rate)} (#{seconds} s)" }
          [
            pair("messages", "#{Figures.count(@status["messages"])}, #{Figures.count(@status["filtered"])} filtered by severity"),
            pair("a second", rates.join(", ")),
            pair("in memory", memory),
            pair("loop lag", @status.fetch("loop_lag_s", {}).map { |name, value| "#{time(value)} (#{name})" }.join(", ")),
            pair("connections", "#{Figures.count(@status["connections"])}, #{Figures.count(@status["sessions"])} acknowledged clients remembered")
          ]
        end

        def memory
          paused = @status["paused"] ? @paint.call("reading is paused", :yellow) : "reading"
          "#{Figures.bytes(@status["bytes"])}, #{paused}, paused #{Units.count(Figures.count(@status["pauses"]), "time")} so far"
        end

        def outputs
          rows = @status.fetch("outputs", []).map do |output|
            name, queue, written, unwritten_s, unsynced_s = output.values_at("output", "bytes", "written", "unwritten_s", "unsynced_s")
            [name, Figures.bytes(queue), Figures.bytes(written), time(unwritten_s), time(unsynced_s)]
          end
          trouble = @status.fetch("outputs", []).flat_map { |output| troubles(output).map { |text| "#{output["output"]}: #{text}" } }
          [*table(%w[OUTPUT QUEUE WRITTEN UNWRITTEN UNSYNCED], rows), *trouble.map { |text| @paint.call("  ! #{fit(text, @columns - 4)}", :red) }]
        end

        def troubles(output)
          waiting, dropped, spilled = output.values_at("waiting", "dropped", "spilled").map(&:to_i)
          [output["trouble"], ("#{Figures.bytes(spilled)} are spilled to disk" if spilled.positive?),
           ("its queue is full, #{Units.count(Figures.count(waiting), "connection waits", "connections wait")}" if waiting.positive?),
           ("#{Units.count(Figures.count(dropped), "message was", "messages were")} dropped, for its queue was full" if dropped.positive?)].compact
        end

        def clients
          all = @status.fetch("clients", []).reject { |client| client["kind"] == "status" }.sort_by { |client| -client["messages"] }
          rows = all.first(ROWS).map do |client|
            [client["peer"], client["kind"], client["service"], Figures.count(client["messages"]), Figures.bytes(client["bytes"])]
          end
          [*table(%w[CLIENT KIND SERVICE MESSAGES BYTES], rows, texts: 3), *more(all.size)]
        end

        def services
          all = @status.fetch("services", {}).sort_by { |name, number| [-number, name] }
          [*table(%w[SERVICE MESSAGES], all.first(ROWS).map { |name, number| [name, Figures.count(number)] }), *more(all.size)]
        end

        def more(size) = size > ROWS ? ["  and #{size - ROWS} more"] : []

        def pair(name, text) = format("  %-12s %s", name, text)

        # Aligns texts left and numbers right. Cuts the first column if the screen is narrow.
        def table(heads, rows, texts: 1)
          return [] if rows.empty?

          rows = rows.map { |row| row.map(&:to_s) }
          widths = [heads, *rows].transpose.map { |cells| cells.map(&:size).max }
          room = @columns - 2 - widths.drop(1).sum { |width| width + 2 }
          widths[0] = widths[0].clamp(8, [room, 8].max)
          head, *body = [heads, *rows].map do |row|
            cells = row.zip(widths).each_with_index.map { |(cell, width), index| index < texts ? fit(cell, width).ljust(width) : cell.rjust(width) }
            "  #{cells.join("  ").rstrip}"
          end
          ["", @paint.call(head, :dim), *body]
        end

        # Cuts a long text at its beginning, because paths differ at the end.
        def fit(text, width) = text.size > width ? "…#{text[-(width - 1)..]}" : text

        def time(seconds) = seconds.to_f.zero? ? "-" : Figures.duration(seconds)
      end
    end
  end
end
