# frozen_string_literal: true

# Writes what bench/loop measured as Markdown: machine and versions, a table for each of wrk's settings, the targets. Text from
# bench/notes/loop.md is put at the end.

require_relative "loop_run"
require_relative "machine"
require_relative "report_parts"
require_relative "target"

module Bench
  # One results file.
  class LoopReport
    include ReportParts

    NOTES = File.join(ROOT, "bench/notes/loop.md")

    # Ahead of the others' single-threaded servers in each column, with the same program and at best.
    TARGETS = LoopRun::LOADS.keys.product(%w[gyre gyre-watches], %w[ever nio4r]).map do |load, name, other|
      Target.new(text: "#{load}: #{LoopRun::SERVERS[name].last}: CPU time against #{other}'s", direction: :at_most, limit: 1, unit: " ×",
                 decimals: 2, measure: ->(results) { results.ratio(load, :cpu_us, name, other) })
    end.freeze

    # @param results [Results]
    # @param loads [Array<String>] those that were run
    # @param servers [Array<String>]
    # @param settings [Hash] facts of the run
    def initialize(results, loads, servers, settings)
      @results = results
      @loads = loads
      @servers = servers
      @settings = settings
    end

    # @return [String]
    def text
      targets = "## Targets\n\n#{Target.table(TARGETS, @results, only_measured: !@settings[:whole])}"
      [opening, *@loads.map { |load| table(load) }, problems(@loads, @servers), targets, notes].compact.join("\n\n") << "\n"
    end

    private

    def opening
      head("Keyed loops: Gyre, Ever and nio4r", "bench/loop", "The server on one core, wrk on the other.",
        "#{@settings[:rounds]} rounds of #{@settings[:seconds]} s, servers taking turns, a fresh process each time; " \
        "cells are medians (lowest–highest round).",
        'All read, parse and write by the same code. "One thread" is the same program on Gyre and on Ever.')
    end

    def table(load)
      threads, connections = LoopRun::LOADS[load]
      rows = @servers.map do |name|
        figures = { requests_per_s: 0, cpu_us: 2, p50_ms: 2, p99_ms: 2 }
        [LoopRun::SERVERS[name].last, *figures.map { |metric, decimals| Markdown.cell(@results.values(load, name, metric), decimals) }]
      end
      headings = ["server", "requests/s", "CPU, µs a request", "p50, ms", "p99, ms"]
      "## wrk -t#{threads} -c#{connections}\n\n#{Markdown.table(headings, rows)}"
    end
  end
end
