# frozen_string_literal: true

# Runs scenarios: starts the servers, warms them up, takes samples in interleaved rounds, stops everything. Prints
# progress. bench/http calls it; the report is written elsewhere.

require_relative "http_scenarios"
require_relative "markdown"
require_relative "results"

module Bench
  # One run of bench/http.
  class HttpRun
    # @param scenarios [Array] of HttpScenarios::ALL
    # @param servers [Array<String>] those that take part, where the scenario has them
    # @param rounds [Integer]
    # @param seconds [Integer] how long wrk measures in each round
    def initialize(scenarios:, servers:, rounds:, seconds:)
      @scenarios = scenarios
      @servers = servers
      @rounds = rounds
      @seconds = seconds
      @results = Results.new
    end

    # @return [Results]
    def call
      @scenarios.each { |scenario| run(scenario) }
      @results
    ensure
      Server.stop_all
    end

    private

    def run(scenario)
      Setup.say scenario.title
      names = scenario.servers & @servers
      @running = {}
      @rounds.times do |round|
        names.rotate(round).each { |name| sample(scenario, name) unless @results.problem?(scenario.key, name) }
      end
    ensure
      @running.each_value(&:stop)
    end

    # One sample of one server. What goes wrong is noted, and that server is left out of this scenario's other rounds.
    def sample(scenario, name)
      sample = scenario.measure(ready(scenario, name), @seconds)
      @results.add(scenario.key, name, sample)
      Setup.say "  #{name.ljust(8)} #{brief(scenario, sample)}"
      @running.delete(name).stop if scenario.fresh?
    rescue Problem => e
      Setup.say "  #{name.ljust(8)} FAILED: #{e.message}"
      @results.problem(scenario.key, name, e.message.lines.first.strip)
      @running.delete(name)&.stop
    end

    def ready(scenario, name)
      return @running[name] if @running[name]

      @running[name] = Servers.build(name).start
      scenario.warm_up(@running[name], @seconds)
      @running[name]
    end

    def brief(scenario, sample)
      shown = scenario.columns.select { |column| sample[column.metric] }.first(4)
      figures = shown.map { |column| "#{Markdown.number(sample[column.metric], column.decimals)} #{column.heading}" }
      [*figures, sample[:errors]].compact.join(" · ")
    end
  end
end
