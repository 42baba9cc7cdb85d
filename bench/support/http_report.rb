# frozen_string_literal: true

# Writes what bench/http measured as Markdown: machine and versions, a table for each scenario, the targets, the noise.
# Text from bench/notes/http.md (what was tried where a target is missed) is put at the end.

require_relative "http_targets"
require_relative "machine"
require_relative "markdown"

module Bench
  # One results file.
  class HttpReport
    NOTES = File.join(ROOT, "bench/notes/http.md")

    # @param results [Results]
    # @param scenarios [Array] those that were run
    # @param settings [Hash] facts of the run: date, rounds, seconds, versions
    def initialize(results, scenarios, settings)
      @results = results
      @scenarios = scenarios
      @settings = settings
    end

    # @return [String]
    def text
      [head, *@scenarios.map { |scenario| section(scenario) }, targets, noise, notes].compact.join("\n\n") << "\n"
    end

    # @return [Boolean] whether Gyre could not be measured somewhere
    def broken?
      @results.problems.any? { |_scenario, subject, _text| subject == "gyre" }
    end

    private

    def head
      versions = @settings[:versions].map { |name, version| "#{name} #{version}" }.join(" · ")
      <<~MARKDOWN.chomp
        # HTTP: Gyre and other servers

        Written by `bench/http` on #{@settings[:date]}; how it measures and how to read it: [bench/README.md](../README.md).

        - Machine: #{@settings[:machine]}; load average before the run #{@settings[:load_average]}. Server on one core, load on the other, one worker each.
        - #{@settings[:ruby]} · #{versions}
        - #{@settings[:rounds]} rounds of #{@settings[:seconds]} s, servers taking turns; cells are medians (lowest–highest round).
      MARKDOWN
    end

    def section(scenario)
      rows = scenario.servers.filter_map { |name| row(scenario, name) if @results.subjects(scenario.key).include?(name) }
      table = Markdown.table(["server", *scenario.columns.map(&:heading)], rows)
      ["## #{scenario.title}", table, *remarks(scenario)].join("\n\n")
    end

    def row(scenario, name)
      cells = scenario.columns.map do |column|
        Markdown.cell(@results.values(scenario.key, name, column.metric), column.decimals)
      end
      [name, *cells]
    end

    # Errors seen by the load generator, and which servers could not be measured.
    def remarks(scenario)
      errors = scenario.servers.flat_map do |name|
        @results.values(scenario.key, name, :errors).uniq.map { |text| "- #{name}: #{text}" }
      end
      problems = @results.problems.select { |key, *| key == scenario.key }
      lines = errors + problems.map { |_key, name, text| "- #{name} not measured: #{text}" }
      lines.empty? ? [] : [lines.join("\n")]
    end

    def targets
      "## Targets\n\nRatios are the median over the rounds of the two servers' figures in the same round.\n\n" +
        Target.table(HttpTargets::ALL, @results, only_measured: !@settings[:whole])
    end

    def noise
      spread = %w[hello-64 hello-1024].filter_map do |key|
        values = @results.values(key, "nginx", :cpu_us)
        format("%s: ±%.0f %%", key, (values.max - values.min) / 2 / Results.median(values) * 100) unless values.empty?
      end
      return if spread.empty?

      "## Noise\n\nSpread of nginx's own CPU time a request between the rounds: #{spread.join(', ')}. Smaller differences " \
        "than that say nothing. wrk is near its limit at 150,000 requests/s: where a server is as fast as that, its CPU " \
        "time is the figure that counts."
    end

    def notes
      File.read(NOTES).strip if File.exist?(NOTES)
    end
  end
end
