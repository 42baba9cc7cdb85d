# frozen_string_literal: true

# A server's status as lines for people. Status prints them. It connects to nothing.

require "gyre/net/units"

module Gyre
  module CLI
    module Log
      # Figures in, lines out.
      class Report
        # Of clients and services the busiest are shown, and how many more there are.
        ROWS = 10
        UNITS = ["B", "KB", "MB", "GB", "TB"].freeze

        # @param status [Hash{String => Object}] as the server sends it
        # @param address [#to_s]
        # @param paint [Paint]
        # @param columns [Integer]
        def initialize(status, address, paint, columns)
          @status = status
          @address = address.to_s.delete_prefix("tcp://")
          @paint = paint
          @columns = columns
        end

        # @return [Array<String>]
        def lines = [heading, *figures, *outputs, *clients, *services]

        private

        def heading
          @paint.call("gyre log #{@status["version"]} at #{@address}, process #{@status["pid"]}, up #{span(@status["uptime_s"])}", :bold)
        end

        def figures
          rates = @status.fetch("rates", {}).map { |seconds, rate| "#{short(rate)} (#{seconds} s)" }
          [
            pair("messages", "#{count(@status["messages"])}, #{count(@status["filtered"])} filtered by severity"),
            pair("a second", rates.join(", ")),
            pair("in memory", memory),
            pair("loop lag", @status.fetch("loop_lag_s", {}).map { |name, value| "#{milliseconds(value)} (#{name})" }.join(", ")),
            pair("connections", "#{count(@status["connections"])}, #{count(@status["sessions"])} acknowledged clients remembered")
          ]
        end

        def memory
          paused = @status["paused"] ? @paint.call("reading is paused", :yellow) : "reading"
          "#{bytes(@status["bytes"])}, #{paused}, paused #{Units.count(count(@status["pauses"]), "time")} so far"
        end

        def outputs
          rows = @status.fetch("outputs", []).map do |output|
            [output["output"], bytes(output["bytes"]), bytes(output["written"]), seconds(output["unwritten_s"]), seconds(output["unsynced_s"])]
          end
          trouble = @status.fetch("outputs", []).flat_map { |output| troubles(output).map { |text| "#{output["output"]}: #{text}" } }
          [*table(%w[OUTPUT QUEUE WRITTEN UNWRITTEN UNSYNCED], rows), *trouble.map { |text| @paint.call("  ! #{fit(text, @columns - 4)}", :red) }]
        end

        def troubles(output)
          waiting, dropped, spilled = output.values_at("waiting", "dropped", "spilled").map(&:to_i)
          [output["trouble"], ("#{bytes(spilled)} are spilled to disk" if spilled.positive?),
           ("its queue is full, #{Units.count(count(waiting), "connection waits", "connections wait")}" if waiting.positive?),
           ("#{Units.count(count(dropped), "message was", "messages were")} dropped, for its queue was full" if dropped.positive?)].compact
        end

        def clients
          all = @status.fetch("clients", []).reject { |client| client["kind"] == "status" }.sort_by { |client| -client["messages"] }
          rows = all.first(ROWS).map do |client|
            [client["peer"], client["kind"], client["service"], count(client["messages"]), bytes(client["bytes"])]
          end
          [*table(%w[CLIENT KIND SERVICE MESSAGES BYTES], rows, texts: 3), *more(all.size)]
        end

        def services
          all = @status.fetch("services", {}).sort_by { |name, number| [-number, name] }
          [*table(%w[SERVICE MESSAGES], all.first(ROWS).map { |name, number| [name, count(number)] }), *more(all.size)]
        end

        def more(size)
          size > ROWS ? ["  and #{size - ROWS} more"] : []
        end

        def pair(name, text) = format("  %-12s %s", name, text)

        # Texts to the left, numbers to the right; the first column is truncated when the screen is
        # narrow.
        def table(heads, rows, texts: 1)
          return [] if rows.empty?

          rows = rows.map { |row| row.map { |cell| @paint.harmless(cell.to_s) } }
          widths = [heads, *rows].transpose.map { |cells| cells.map(&:size).max }
          room = @columns - 2 - widths.drop(1).sum { |width| width + 2 }
          widths[0] = widths[0].clamp(8, [room, 8].max)
          head, *body = [heads, *rows].map do |row|
            cells = row.zip(widths).each_with_index.map do |(cell, width), index|
              index < texts ? fit(cell, width).ljust(width) : cell.rjust(width)
            end
            "  #{cells.join("  ").rstrip}"
          end
          ["", @paint.call(head, :dim), *body]
        end

        # The end of a path is more useful than its beginning.
        def fit(text, width) = text.size > width ? "…#{text[-(width - 1)..]}" : text

        def count(number) = number.to_i.to_s.gsub(/(?<=\d)(?=(?:\d{3})+\z)/, ",")

        def short(rate) = rate >= 100 ? count(rate.round) : rate.round(1).to_s

        def bytes(number)
          number = number.to_f
          unit = UNITS.find { |name| name == UNITS.last || number < 1000 || !(number /= 1024) }
          unit == "B" || number >= 100 ? "#{number.round} #{unit}" : "#{number.round(1)} #{unit}"
        end

        def milliseconds(seconds) = seconds ? "#{(seconds * 1000).round(1)} ms" : "-"

        def seconds(value) = value.to_f.zero? ? "-" : "#{value.round(value < 10 ? 1 : 0)} s"

        def span(seconds)
          seconds = seconds.to_i
          days, hours, minutes = seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60
          return "#{days} d #{hours} h" if days.positive?
          return "#{hours} h #{minutes} min" if hours.positive?

          minutes.positive? ? "#{minutes} min #{seconds % 60} s" : "#{seconds} s"
        end
      end
    end
  end
end
