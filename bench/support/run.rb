# frozen_string_literal: true

# Takes the samples of a bench command: in each round all subjects of a scenario have their turn,
# and the order rotates. Prints progress; writes nothing.

require_relative "markdown"
require_relative "results"
require_relative "server"

module Bench
  # One run.
  class Run
    def initialize(scenarios, subjects, settings)
      @scenarios = scenarios
      @subjects = subjects
      @settings = settings
      @results = Results.new
      @width = subjects.map(&:length).max.to_i
    end

    def call
      @scenarios.each { |scenario| run(scenario) }
      @results
    ensure
      Server.stop_all
    end

    private

    def run(scenario)
      Setup.say scenario.title
      names = scenario.subjects & @subjects
      @settings[:rounds].times { |round| names.rotate(round).each { |name| sample(scenario, name) } }
    ensure
      scenario.finish
    end

    # One sample of one subject. What goes wrong is noted, and that subject is left out of this
    # scenario's other rounds.
    def sample(scenario, name)
      return if @results.problem?(scenario.key, name)

      sample = scenario.measure(name, @settings)
      @results.add(scenario.key, name, sample)
      figures = scenario.columns.select { |column| sample[column.metric] }.first(5).map do |column|
        "#{Markdown.number(sample[column.metric], column.decimals)} #{column.heading}"
      end
      Setup.say "  #{name.ljust(@width)} #{[*figures, sample[:errors]].compact.join(' · ')}"
    rescue Problem => e
      Setup.say "  #{name.ljust(@width)} FAILED: #{e.message}"
      @results.problem(scenario.key, name, e.message.lines.first.strip)
    end
  end
end
