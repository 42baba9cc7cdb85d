# frozen_string_literal: true

# Writes what bench/scheduler measured as Markdown: machine and versions, CPU time an operation for each scheduler, the
# raw socket server, the targets. Text from bench/notes/scheduler.md is put at the end.

require_relative "machine"
require_relative "scheduler_run"
require_relative "target"

module Bench
  # One results file.
  class SchedulerReport
    NOTES = File.join(ROOT, "bench/notes/scheduler.md")

    # Ahead of Async in each row: less CPU time.
    TARGETS = SchedulerRun::BENCHMARKS.map do |benchmark|
      Target.new(text: "#{benchmark}: Gyre's CPU time against Async's", direction: :at_most, limit: 1, unit: " ×", decimals: 2,
                 measure: ->(results) { results.ratio(benchmark, :cpu_us, "gyre", "async") })
    end.freeze

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
      [head, micro, *raw, problems, targets, notes].compact.join("\n\n") << "\n"
    end

    # @return [Boolean] whether Gyre could not be measured somewhere
    def broken?
      @results.problems.any? { |_benchmark, subject, _text| subject.start_with?("gyre") }
    end

    private

    def head
      versions = @settings[:versions].map { |name, version| "#{name} #{version}" }.join(" · ")
      <<~MARKDOWN.chomp
        # Fiber schedulers: Gyre, Async and carbon_fiber

        Written by `bench/scheduler` on #{@settings[:date]}; how it measures and how to read it: [bench/README.md](../README.md).

        - Machine: #{@settings[:machine]}; load average before the run #{@settings[:load_average]}. Each process on one core, wrk on the other.
        - #{@settings[:ruby]} · #{versions}
        - #{@settings[:rounds]} rounds, schedulers taking turns, a fresh process each time; cells are medians (lowest–highest round).
      MARKDOWN
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
        rows = @schedulers.map do |name|
          figures = { requests_per_s: 0, cpu_us: 2, p50_ms: 2, p99_ms: 2 }
          cells = figures.map { |metric, decimals| Markdown.cell(@results.values(key, name, metric), decimals) }
          [Schedulers::LABELS[name], *cells]
        end
        headings = ["scheduler", "requests/s", "CPU, µs a request", "p50, ms", "p99, ms"]
        "## Raw socket server (accept, gets, write; a fiber each), #{SchedulerRun::RAW[key]} connections\n\n" +
          Markdown.table(headings, rows)
      end
    end

    def problems
      errors = @benchmarks.product(@schedulers).flat_map do |benchmark, name|
        @results.values(benchmark, name, :errors).uniq.map { |text| "- #{benchmark}, #{name}: #{text}" }
      end
      lines = errors + @results.problems.map { |benchmark, name, text| "- #{benchmark}, #{name}, not measured: #{text}" }
      "## Problems\n\n#{lines.join("\n")}" unless lines.empty?
    end

    def targets
      "## Targets\n\n" + Target.table(TARGETS, @results, only_measured: !@settings[:whole])
    end

    def notes
      File.read(NOTES).strip if File.exist?(NOTES)
    end
  end
end
