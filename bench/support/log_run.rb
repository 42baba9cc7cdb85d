# frozen_string_literal: true

# Takes the samples of bench/log, each with a server just started; in each round all subjects have their turn. Prints progress. bench/log
# calls it; the report is written elsewhere.

require_relative "markdown"
require_relative "results"
require_relative "log_scenarios"

module Bench
  # One run of bench/log.
  class LogRun
    # @param scenarios [Array] of LogScenarios::ALL
    # @param subjects [Array<String>] those that take part, where the scenario has them
    # @param rounds [Integer]
    # @param scale [Float] part of the usual number of messages
    def initialize(scenarios:, subjects:, rounds:, scale:)
      @scenarios = scenarios
      @subjects = subjects
      @rounds = rounds
      @scale = scale
      @results = Results.new
    end

    # @return [Results]
    def call
      @scenarios.each do |scenario|
        Setup.say scenario.title
        names = scenario.subjects.keys & @subjects
        @rounds.times { |round| names.rotate(round).each { |name| sample(scenario, name) } }
      end
      @results
    ensure
      Server.stop_all
    end

    private

    # One sample. What goes wrong is noted, and that subject is left out of this scenario's other rounds.
    def sample(scenario, name)
      return if @results.problem?(scenario.key, name)

      sample = scenario.measure(name, @scale)
      @results.add(scenario.key, name, sample)
      figures = scenario.columns.filter_map do |metric, (heading, decimals)|
        "#{Markdown.number(sample[metric], decimals)} #{heading}" if sample[metric]
      end
      Setup.say "  #{name.ljust(17)} #{figures.join(' · ')}"
    rescue Problem => e
      Setup.say "  #{name.ljust(17)} FAILED: #{e.message}"
      @results.problem(scenario.key, name, e.message.lines.first.strip)
    end
  end
end
