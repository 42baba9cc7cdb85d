# frozen_string_literal: true

# What a run of CRuby's tests on one backend comes to: the lines that runner.rb left, held against
# the list of exceptions. Made by rakelib/conformance.rake.
module GyreConformance
  # Counts and complaints.
  class Verdict
    attr_reader :passed, :failed, :skipped
    attr_reader :notes

    def initialize(exceptions)
      @exceptions = exceptions
      @passed = @failed = @skipped = 0
      @notes = []
      @seen = {}
    end

    # Takes in the results of one test file.
    def add(file, lines, ending)
      results = outcomes(lines)
      results.each { |test, (outcome, detail)| count(test, outcome, detail, ending) }
      ended = lines.last == "finished" || results.any? { |_, (outcome, _)| outcome == "started" }
      fail_for("#{file} did not come to its end: #{ending}") unless ended
      fail_for("#{file} has no test") if lines == ["finished"]
    end

    # To be called after the last file.
    def finish
      (@exceptions.keys - @seen.keys).each { |test| fail_for("#{test} is listed as an exception, and there is no such test") }
      self
    end

    private

    # A later line of a test counts more than an earlier one, but a failure stays.
    def outcomes(lines)
      lines.grep(/\A(?:started|passed|failed|omitted) /).each_with_object({}) do |line, results|
        outcome, test, detail = line.match(/\A(\w+) ([^\t]+)\t?(.*)\z/).captures
        results[test] = [outcome, detail] unless results[test]&.first == "failed"
      end
    end

    def count(test, outcome, detail, ending)
      @seen[test] = true
      reason = @exceptions[test]
      case outcome
      when "passed" then reason ? fail_for("#{test} passes, but is listed as an exception") : @passed += 1
      when "omitted" then skip_for("#{test} leaves itself out: #{detail}")
      else
        detail = "it did not end (#{ending})" if outcome == "started"
        reason ? skip_for("#{test}: #{reason}") : fail_for("#{test}: #{detail}")
      end
    end

    def fail_for(note)
      @failed += 1
      @notes << "failed: #{note}"
    end

    def skip_for(note)
      @skipped += 1
      @notes << "skipped: #{note}"
    end
  end
end
