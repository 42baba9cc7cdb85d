# frozen_string_literal: true

# The samples of one run and the arithmetic on them: medians, spreads, ratios between two subjects
# measured in the same rounds. Used by the reports; kept as JSON below tmp/bench, so that a report
# can be written again.

require "json"

module Bench
  # A column of a results table: heading, the sample's key, decimals.
  Column = Struct.new(:heading, :metric, :decimals)

  # results[scenario][subject] is a list of samples, one a round; a sample is a Hash of metrics.
  class Results
    attr_reader :problems

    def self.load(path)
      data = JSON.parse(File.read(path), symbolize_names: true)
      results = new
      data[:samples].each do |scenario, subjects|
        subjects.each { |subject, list| list.each { |sample| results.add(scenario.to_s, subject.to_s, sample) } }
      end
      data[:problems].each { |scenario, subject, text| results.problem(scenario, subject, text) }
      results
    end

    def initialize
      @samples = Hash.new { |hash, key| hash[key] = Hash.new { |inner, subject| inner[subject] = [] } }
      @problems = []
    end

    def add(scenario, subject, sample)
      @samples[scenario][subject] << sample
    end

    # Notes that a subject could not be measured.
    def problem(scenario, subject, text)
      @problems << [scenario, subject, text]
    end

    # Returns whether a problem was noted.
    def problem?(scenario, subject)
      @problems.any? { |key, name, _text| key == scenario && name == subject }
    end

    def save(path)
      File.write(path, JSON.pretty_generate(samples: @samples, problems: @problems))
    end

    # Returns the subjects with samples in a scenario.
    def subjects(scenario)
      @samples.key?(scenario) ? @samples[scenario].keys : []
    end

    def values(scenario, subject, metric)
      return [] unless subjects(scenario).include?(subject)

      @samples[scenario][subject].map { |sample| sample[metric] }.compact
    end

    def median(scenario, subject, metric)
      Results.median(values(scenario, subject, metric))
    end

    # Median over the rounds of one subject's value divided by another's in the same round, so that
    # a slow phase of the machine, which lasts longer than a round, counts for both.
    def ratio(scenario, metric, subject, other)
      pairs = values(scenario, subject, metric).zip(values(scenario, other, metric))
      Results.median(pairs.reject { |pair| pair.any?(&:nil?) }.map { |value, against| value.to_f / against })
    end

    def self.median(list)
      return nil if list.empty?

      sorted = list.sort
      middle = sorted.size / 2
      sorted.size.odd? ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2.0
    end
  end
end
