# frozen_string_literal: true

# Writes what bench/scheduler measured as Markdown: machine and versions, CPU time an operation for each scheduler, the
# raw socket server, the targets. Text from bench/notes/scheduler.md is put at the end.

require_relative "machine"
require_relative "report_parts"
require_relative "scheduler_run"
require_relative "target"

module Bench
  # One results file.
  class SchedulerReport
    include ReportParts

    NOTES = File.join(ROOT, "bench/notes/scheduler.md")

    # Gyre's CPU time against that of the best other scheduler.
    def self.against_best(benchmark, limit)
      Target.new(text: "#{benchmark}: Gyre's CPU time against the best other scheduler's", direction: :at_most, limit: limit, unit: " ×",
                 decimals: 2, measure: lambda { |results|
                   Schedulers::OTHERS.map { |other| results.ratio(benchmark, :cpu_us, "gyre", other) }.compact.max
                 })
    end

    # Against one other.
    def self.against(other, benchmark, limit)
      Target.new(text: "#{benchmark}: Gyre's CPU time against #{other}'s", direction: :at_most, limit: limit, unit: " ×", decimals: 2,
                 measure: ->(results) { results.ratio(benchmark, :cpu_us, "gyre", other) })
    end

    # Requests a second with many connections against those with few.
    def self.keeps_rate(many, few, limit)
      Target.new(text: "#{many}: requests a second, against #{few}", direction: :at_least, limit: limit, unit: " ×", decimals: 2,
                 measure: lambda { |results|
                   rates = [many, few].map { |benchmark| results.median(benchmark, "gyre", :requests_per_s) }
                   rates[0] / rates[1] if rates.all?
                 })
    end

    # What was promised, see the table at the end of a report.
    TARGETS = [
      *%w[ping-pong timeout].map { |benchmark| against_best(benchmark, 0.9) },
      *%w[pipes timers task queue].map { |benchmark| against_best(benchmark, 0.75) },
      against("async", "sleep0", 0.4), against_best("raw-64", 1.0), against_best("raw-1024", 1.0),
      against("nginx", "raw-64", 1.15), keeps_rate("raw-8192", "raw-64", 0.5)
    ].freeze

    # @param results [Results]
    # @param benchmarks [Array<String>] those that were run
    # @param schedulers [Array<String>]
    # @param settings [Hash] facts of the run
    def initialize(results, benchmarks, schedulers, settings)
      @results = results
      @benchmarks = benchmarks
      @schedulers = schedulers
      @settings = settings
    end

    # @return [String]
    def text
      [opening, micro, *raw, problems(@benchmarks, [*@schedulers, SchedulerRun::NGINX]), targets, notes].compact.join("\n\n") << "\n"
    end

    private

    def opening
      head("Fiber schedulers: Gyre, Async and carbon_fiber", "bench/scheduler", "Each process on one core, wrk on the other.",
        "#{@settings[:rounds]} rounds, schedulers taking turns, a fresh process each time; cells are medians (lowest–highest round).")
    end

    def micro
      keys = @benchmarks & SchedulerWork::ALL.keys
      return if keys.empty?

      names = @schedulers.map { |name| Schedulers::LABELS[name] }
      headings = ["CPU, µs an operation", *names, "Async ÷ Gyre", "carbon_fiber ÷ Gyre"]
      meanings = keys.map { |key| "- **#{key}**: #{SchedulerWork::ALL[key].last}" }
      ["## Micro-benchmarks", Markdown.table(headings, keys.map { |key| row(key) }), meanings.join("\n")].join("\n\n")
    end

    def row(key)
      cells = @schedulers.map { |name| Markdown.cell(@results.values(key, name, :cpu_us), 2) }
      ratios = %w[async carbon_fiber].map do |other|
        ratio = @results.ratio(key, :cpu_us, other, "gyre")
        ratio ? format("%.2f", ratio) : "–"
      end
      [key, *cells, *ratios]
    end

    def raw
      (@benchmarks & SchedulerRun::RAW.keys).map do |key|
        rows = [*@schedulers, SchedulerRun::NGINX].map do |name|
          figures = { requests_per_s: 0, cpu_us: 2, p50_ms: 2, p99_ms: 2 }
          cells = figures.map { |metric, decimals| Markdown.cell(@results.values(key, name, metric), decimals) }
          [Schedulers::LABELS.fetch(name, name), *cells]
        end
        headings = ["scheduler", "requests/s", "CPU, µs a request", "p50, ms", "p99, ms"]
        "## Raw socket server (accept, gets, write; a fiber each), #{SchedulerRun::RAW[key]} connections\n\n" +
          Markdown.table(headings, rows)
      end
    end

    def targets
      "## Targets\n\n" + Target.table(TARGETS, @results, only_measured: !@settings[:whole])
    end
  end
end
