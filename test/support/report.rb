# frozen_string_literal: true

# What the run says at its end, beside Minitest's own summary: the slowest tests, every skip with its reason,
# warnings that belong to no test. Writes the counts as "passed failed skipped" to the file named by
# GYRE_TEST_COUNTS, from which .ci/run adds up; beside it what failed (".failures") and which test runs (".now"). Loaded by
# test_helper.
require_relative "warnings"
require_relative "watchdog"

module GyreTest
  # A Minitest reporter.
  class Report < Minitest::StatisticsReporter
    SLOW_S = 0.5
    SLOWEST = 5
    FAILURE_LINES = 40

    def start
      super
      @times = []
      LeakCheck.warm_up
      Watchdog.start { |name| abort_with(name) }
    end

    # Before each test.
    def prerecord(test_class, name)
      @path ||= ENV["GYRE_TEST_COUNTS"] or return

      File.write("#{@path}.now", "#{test_class}##{name}\n") # for whom a crash leaves nothing else
    end

    def record(result)
      super
      @times << [result.time, "#{result.klass}##{result.name}"]
      write_failure(result.to_s) unless result.passed? || result.skipped?
    end

    def report
      super
      @stray_warnings = Warnings.take
      print_slowest
      print_skips
      print_stray_warnings
      write_counts
    end

    def passed?
      super && @stray_warnings.to_a.empty?
    end

    private

    def print_slowest
      slowest = @times.select { |time, _| time >= SLOW_S }.max(SLOWEST)
      return if slowest.empty?

      io.puts "\nSlowest:"
      slowest.each { |time, name| io.puts format("%8.2f s  %s", time, name) }
    end

    def print_skips
      skipped = results.select(&:skipped?)
      return if skipped.empty?

      io.puts "\nSkipped:"
      skipped.group_by { |result| result.failure.message }.each do |reason, group|
        io.puts "  #{reason}"
        group.each { |result| io.puts "    #{result.klass}##{result.name}" }
      end
    end

    def print_stray_warnings
      return if @stray_warnings.empty?

      io.puts "\nFailed: Ruby warned outside of any test:", @stray_warnings
    end

    def write_counts(hung: nil)
      path = ENV["GYRE_TEST_COUNTS"] or return

      write_failure("#{hung} did not end in time") if hung
      write_failure("Ruby warned outside of any test:\n#{@stray_warnings.join("\n")}") if @stray_warnings.to_a.any?

      skipped = results.count(&:skipped?)
      failed = results.size - skipped
      passed = count - results.size
      failed += (hung ? 1 : 0) + (@stray_warnings.to_a.empty? ? 0 : 1)
      File.write(path, "#{passed} #{failed} #{skipped}\n")
    end

    # In short, for a reader who has only the end of a long output; at once, for the process may crash.
    def write_failure(text)
      path = ENV["GYRE_TEST_COUNTS"] or return

      File.open("#{path}.failures", "ab") { |file| file.write(text.b.lines.first(FAILURE_LINES).join.chomp, "\n\n") }
    end

    def abort_with(name)
      io.puts "\nThe run ends here: #{name} did not end in time. What failed before:"
      results.reject(&:skipped?).each { |result| io.puts "\n#{result}" }
      write_counts(hung: name)
    end
  end
end

module Minitest
  def self.plugin_gyre_init(options)
    reporter << GyreTest::Report.new(options[:io], options)
  end
end
Minitest.extensions << "gyre"
