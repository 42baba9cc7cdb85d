# frozen_string_literal: true

# What one of the bench commands measures, and how its results file reads: scenarios, subjects,
# targets, words. Each command has a subclass (http_suite.rb and so on); Bench::Run takes the
# samples, Bench::Report writes them, Bench::Command has the options.
#
# A scenario answers to: key, title, heading (of its section), subjects, columns, measure(subject,
# settings) → a Hash of metrics, and finish, which stops what it kept between two samples. See
# Scenario.

require_relative "../../lib/gyre/settings/units"
require_relative "machine"
require_relative "results"
require_relative "server"
require_relative "target"

module Bench
  # What every scenario has.
  class Scenario
    attr_reader :key
    # Returns what is measured, in a line.
    attr_reader :title
    # Returns what takes part, in the order of the table.
    attr_reader :subjects
    attr_reader :columns

    def initialize(key, title, subjects:, columns:)
      @key = key
      @title = title
      @subjects = subjects
      @columns = columns
    end

    def heading
      title
    end

    # Scenarios with the same pivot share a table, which that writes.
    def pivot; end

    def finish; end
  end

  # Base of the commands' suites.
  class Suite
    def defaults = { rounds: 3, seconds: 5 }
    def quick = { rounds: 1, seconds: 1 }
    def short = { rounds: 1, **({ seconds: 2 } if defaults.key?(:seconds)).to_h }
    # Returns the option that chooses subjects.
    def subject_option = "servers"
    def subjects = scenarios.flat_map(&:subjects).uniq
    # Returns what the report calls a subject, where that is not its name.
    def labels = {}
    def row_heading = "server"
    def programs(_subjects) = %w[taskset wrk]
    def versions(_subjects) = { "gyre" => Machine.gyre }
    # Returns the subjects that can take part here.
    def available(subjects) = subjects
    def targets = []
    # Returns a sentence before their table.
    def targets_note = "Ratios are the median over the rounds of the two subjects' figures in the same round."
    # Returns a section before the notes.
    def remarks(_results) = nil

    private

    # A target on how many times one subject's figure is another's in the same rounds.
    def ratio(text, direction, limit, key, metric, subject, other)
      Target.new(text: text, direction: direction, limit: limit, unit: " ×", decimals: 2,
                 measure: ->(results) { results.ratio(key, metric, subject, other) })
    end

    # A target on a subject's own figure; one bad round counts when the worst is asked for.
    def figure(text, direction, limit, unit, decimals, key, metric, subject: "gyre", pick: :median, scale: 1.0)
      measure = lambda do |results|
        values = results.values(key, subject, metric)
        value = pick == :median ? Results.median(values) : values.public_send(pick)
        value && value * scale
      end
      Target.new(text: text, direction: direction, limit: limit, unit: unit, decimals: decimals, measure: measure)
    end
  end
end
