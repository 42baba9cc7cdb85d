# frozen_string_literal: true

# What every test is checked for beside its own assertions: it leaves nothing behind and causes no
# warning, and it ends. Included in Minitest::Test by test_helper. With GYRE_TEST_STRESS=1 (rake
# test:stress) the collector runs at each allocation of a test's body, and a thread moves all
# objects about.
require_relative "leak_check"
require_relative "warnings"
require_relative "watchdog"

module GyreTest
  # Minitest's hooks around each test.
  module LifecycleChecks
    # GC.stress = 1 is the young generation only, in which a forgotten mark shows first: 40 to 100
    # times faster than all.
    STRESS = ENV["GYRE_TEST_STRESS"] == "1" ? 1 : false
    COMPACTION_PAUSE_S = 0.05

    # On a busy machine a compaction may take half a second: the tests get three times as long
    # before the next one, else it would be this thread alone that gets on.
    def self.move_all_objects
      before = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      GC.compact
      sleep [COMPACTION_PAUSE_S, 3 * (Process.clock_gettime(Process::CLOCK_MONOTONIC) - before)].max
    end

    # Called where the tests run, for the process that forks them may have no thread.
    def self.start_moving_objects
      Thread.new { loop { move_all_objects } } if STRESS
    end

    def before_setup
      Watchdog.watch(self)
      @leak_check = LeakCheck.new
      super
    end

    def after_setup
      super
      GC.stress = STRESS
    end

    def before_teardown
      GC.stress = false
      super
    end

    def after_teardown
      super
      fail_for_leaks unless skipped?
      warnings = Warnings.take
      flunk "Ruby warned:\n#{warnings.join("\n")}" unless warnings.empty?
    ensure
      Watchdog.release
    end

    private

    # A test that failed already may leave things behind; its own failure is what to look at.
    def fail_for_leaks
      leaks = failures.empty? ? @leak_check.leaks : []
      flunk "the test leaks:\n#{leaks.join("\n")}" unless leaks.empty?
    end
  end
end
