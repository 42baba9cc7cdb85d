# frozen_string_literal: true

# Writes what bench/log measured as Markdown: machine and versions, a table for each scenario, the targets. Text from
# bench/notes/log.md is put at the end.

require_relative "log_run"
require_relative "machine"
require_relative "target"

module Bench
  # One results file.
  class LogReport
    NOTES = File.join(ROOT, "bench/notes/log.md")

    WIRE = %w[wire-10-1 wire-10-200 wire-100-1 wire-100-200].freeze
    CLIENT = %w[client-10-100k client-10-1000k client-100-100k client-100-1000k].freeze
    ACKNOWLEDGED = %w[acknowledged-10-1 acknowledged-10-200 acknowledged-100-1 acknowledged-100-200].freeze

    # A target of one subject's figure against another's.
    def self.against(key, metric, subject, other, direction, limit, text)
      Target.new(text: "#{key}: #{text}", direction: direction, limit: limit, unit: " ×", decimals: 2,
                 measure: ->(results) { results.ratio(key, metric, subject, other) })
    end

    # A target of a figure by itself.
    def self.figure(key, metric, subject, direction, limit, unit, text)
      Target.new(text: "#{key}: #{text}", direction: direction, limit: limit, unit: unit, decimals: 0,
                 measure: ->(results) { results.median(key, subject, metric) })
    end

    TARGETS = [
      *WIRE.map { |key| against(key, :written_per_s, "gyre", "analogger", :at_least, 10, "rate to the file against Analogger's") },
      *WIRE.map { |key| against(key, :synced_per_s, "gyre", "analogger", :at_least, 10, "rate with fdatasync against Analogger's") },
      *WIRE.product(%w[rsyslog rsyslog-tuned]).map do |key, name|
        against(key, :cpu_us, "gyre", name, :at_most, 1.5, "server CPU a message against #{LogServer::NAMES[name]}")
      end,
      *CLIENT.map { |key| against(key, :flushed_per_s, "gyre", "analogger", :at_least, 3, "client's rate until flushed against Analogger's") },
      *ACKNOWLEDGED.map do |key|
        Target.new(text: "#{key}: acknowledged against unacknowledged in the file", direction: :at_least, limit: 0.5, unit: " ×", decimals: 2,
                   measure: ->(results) { acknowledged(results, key) })
      end,
      *CLIENT.last(1).map do |key|
        against(key, :flushed_per_s, "gyre-acknowledged", "gyre", :at_least, 0.5, "acknowledged client against unacknowledged")
      end,
      *%w[rfc5424-lines rfc5424-octets].map { |key| figure(key, :written_per_s, "gyre", :at_least, 500_000, "/s", "messages in the file") },
      figure("trickle", :p99_ms, "gyre", :at_most, 2000, " ms", "p99 from send to file, interval 1 s"),
      figure("trickle", :p99_ms, "gyre-0.1", :at_most, 200, " ms", "p99 from send to file, interval 0.1 s"),
      *%w[gyre gyre-0.1].map do |name|
        Target.new(text: "trickle: RSS in the last third against the second, #{LogServer::NAMES[name]}", direction: :at_most,
                   limit: 1.05, unit: " ×", decimals: 2, measure: ->(results) { growth(results, name) })
      end
    ].freeze

    # The last acknowledgement of the one against the last line of the other, in the same rounds.
    def self.acknowledged(results, key)
      pairs = results.values(key, "gyre-acknowledged", :acknowledged_per_s).zip(results.values(key, "gyre", :written_per_s))
      Results.median(pairs.reject { |pair| pair.any?(&:nil?) }.map { |one, other| one / other })
    end

    def self.growth(results, name)
      pairs = results.values("trickle", name, :rss_late_mb).zip(results.values("trickle", name, :rss_middle_mb))
      Results.median(pairs.map { |late, middle| late / middle })
    end

    # @param results [Results]
    # @param scenarios [Array] those that were run
    # @param settings [Hash] facts of the run
    def initialize(results, scenarios, settings)
      @results = results
      @scenarios = scenarios
      @settings = settings
    end

    # @return [String]
    def text
      [head, *@scenarios.map { |scenario| section(scenario) }, problems, targets, notes].compact.join("\n\n") << "\n"
    end

    # @return [Boolean] whether Gyre could not be measured somewhere
    def broken?
      @results.problems.any? { |_key, name, _text| name.start_with?("gyre") }
    end

    private

    def head
      versions = @settings[:versions].map { |name, version| "#{name} #{version}" }.join(" · ")
      <<~MARKDOWN.chomp
        # Log servers and clients: Gyre, Analogger and rsyslog

        Written by `bench/log` on #{@settings[:date]}; how it measures and how to read it: [bench/README.md](../README.md).

        - Machine: #{@settings[:machine]}; load average before the run #{@settings[:load_average]}. The server on one core, the load on the other.
        - #{@settings[:ruby]} · #{versions}
        - #{@settings[:rounds]} rounds, subjects taking turns, a fresh server each time; cells are medians (lowest–highest round).
        - All messages of a sample differ, and each sample's file was compared with what was sent: every line was there once, as it was.
      MARKDOWN
    end

    def section(scenario)
      rows = scenario.subjects.keys.filter_map { |name| row(scenario, name) if @results.subjects(scenario.key).include?(name) }
      "## #{scenario.key}\n\n#{scenario.title}.\n\n#{Markdown.table(['', *scenario.columns.values.map(&:first)], rows)}"
    end

    def row(scenario, name)
      label = { "gyre-acknowledged" => "Gyre, acknowledged" }.fetch(name) { LogServer::NAMES.fetch(name) }
      [label, *scenario.columns.map { |metric, (_heading, decimals)| Markdown.cell(@results.values(scenario.key, name, metric), decimals) }]
    end

    def problems
      lines = @results.problems.map { |key, name, text| "- #{key}, #{name}, not measured: #{text}" }
      "## Problems\n\n#{lines.join("\n")}" unless lines.empty?
    end

    def targets
      "## Targets\n\nRatios are the median over the rounds of the two subjects' figures in the same round.\n\n" +
        Target.table(TARGETS, @results, only_measured: !@settings[:whole])
    end

    def notes
      File.read(NOTES).strip if File.exist?(NOTES)
    end
  end
end
