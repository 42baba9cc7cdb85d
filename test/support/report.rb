# frozen_string_literal: true

# Collects what the tests of this process came to. A test file that is run alone prints it after
# Minitest's own summary; a worker (see Worker) writes it to a file instead, and prints nothing.
require_relative "summary"
require_relative "leak_check"
require_relative "lifecycle_checks"
require_relative "warnings"
require_relative "watchdog"

module GyreTest
  # A Minitest reporter.
  class Report < Minitest::AbstractReporter
    class << self
      # Returns where a worker's summary goes.
      attr_accessor :destination
    end

    def initialize(out)
      super()
      @out = out
      @summary = Summary.new
    end

    def start
      LeakCheck.warm_up
      LifecycleChecks.start_moving_objects
      Watchdog.start { |name| abort_with(name) }
    end

    def record(result)
      @summary.record(result)
    end

    def report
      @summary.warnings.concat(Warnings.take)
      return write if Report.destination

      @summary.print_slowest(@out)
      @summary.print_skips(@out)
      @summary.print_warnings(@out)
    end

    def passed?
      @summary.failed.zero?
    end

    private

    # In one step: a summary that was half written would be taken for the whole.
    def write
      File.binwrite("#{Report.destination}.new", Marshal.dump(@summary))
      File.rename("#{Report.destination}.new", Report.destination)
    end

    def abort_with(name)
      @summary.fail("#{name} did not end in time; the tests after it in its file did not run")
      return write if Report.destination

      @out.puts "\nThe run ends here: #{name} did not end in time. What failed before:"
      @summary.print_failures(@out)
    end
  end
end

module Minitest
  def self.plugin_gyre_init(options)
    reporter.reporters.clear if GyreTest::Report.destination && !options[:verbose]
    reporter << GyreTest::Report.new(options[:io])
  end
end
Minitest.extensions << "gyre"
