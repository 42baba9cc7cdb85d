# frozen_string_literal: true

# Writes what a bench command measured as Markdown: machine and versions, a table for each scenario,
# problems, targets. Text from bench/notes/NAME.md is put at the end.

require_relative "markdown"
require_relative "result_file"
require_relative "target"

module Bench
  # One results file.
  class Report
    def initialize(suite, results, scenarios, subjects, settings)
      @suite = suite
      @results = results
      @scenarios = scenarios
      @subjects = subjects
      @settings = settings
    end

    def text
      [head, *sections, problems, targets, @suite.remarks(@results), notes].compact.join("\n\n") << "\n"
    end

    def gaps
      ours = @results.problems.select { |_key, name, _text| name.start_with?("gyre") }
      empty = @scenarios.select { |scenario| (scenario.subjects & @subjects).any? && @results.subjects(scenario.key).empty? }
      ours.map { |problem| Report.problem(*problem) } +
        empty.map { |scenario| "#{scenario.key} has no figures" }
    end

    def self.problem(key, name, text) = "#{key}, #{name}, not measured: #{text}"

    private

    def head
      versions = @settings[:versions].map { |name, version| "#{name} #{version}" }.join(" · ")
      <<~MARKDOWN + @suite.about(@settings).map { |line| "- #{line}" }.join("\n")
        # #{@suite.title}

        Written by `bench/#{@suite.name}` on #{@settings[:date]}; how it measures and how to read it: [bench/README.md](#{File.join(*[".."] * depth, "README.md")}).

        - Machine: #{@settings[:machine]}; load average before the run #{@settings[:load_average]}. #{@suite.cores}
        - #{@settings[:ruby]} · #{versions}
      MARKDOWN
    end

    def sections
      @scenarios.chunk_while { |one, next_one| one.pivot && one.pivot == next_one.pivot }.map do |group|
        group.first.pivot ? group.first.pivot.section(group, @subjects, @results) : section(group.first)
      end
    end

    def section(scenario)
      rows = scenario.subjects.filter_map { |name| row(scenario, name) if @results.subjects(scenario.key).include?(name) }
      "## #{scenario.heading}\n\n#{Markdown.table([@suite.row_heading, *scenario.columns.map(&:heading)], rows)}"
    end

    def row(scenario, name)
      cells = scenario.columns.map { |column| Markdown.cell(@results.values(scenario.key, name, column.metric), column.decimals) }
      [@suite.labels.fetch(name, name), *cells]
    end

    # Errors seen by the load generators, and what could not be measured.
    def problems
      errors = @scenarios.flat_map do |scenario|
        scenario.subjects.flat_map do |name|
          @results.values(scenario.key, name, :errors).uniq.map { |text| "- #{scenario.key}, #{name}: #{text}" }
        end
      end
      lines = errors + (@results.problems.map { |problem| Report.problem(*problem) } + left_out).map { |text| "- #{text}" }
      "## Problems\n\n#{lines.join("\n")}" unless lines.empty?
    end

    def left_out
      @settings.fetch(:left_out, {}).map { |gem, reason| "#{gem}, left out: #{reason}" }
    end

    def targets
      return if @suite.targets.empty?

      ["## Targets", @suite.targets_note, Target.table(@suite.targets, @results, only_measured: !@settings[:whole])].compact.join("\n\n")
    end

    # Notes are about the figures that are quoted.
    def notes
      return unless quoted?

      path = File.join(ROOT, "bench/notes/#{@suite.name}.md")
      File.read(path).strip if File.exist?(path)
    end

    def quoted? = ResultFile.quoted?(@settings[:ruby][/\d[\d.]*/])
    def depth = quoted? ? 1 : 2
  end
end
