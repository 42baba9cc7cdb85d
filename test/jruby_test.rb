# frozen_string_literal: true

# The portable engine on JRuby 10 (bin/jruby): the loop, and tasks and what they wait on over Gyre's
# own block and unblock. JRuby hands no wait for a Thread::Queue, a Mutex or an IO to a scheduler.
# It starts slowly: one process runs all cases.
require "test_helper"

class JRubyTest < Minitest::Test
  FILES = %w[test/loop_test.rb test/loop/select_test.rb test/loop/timers_test.rb test/jruby/choice.rb
             test/sync/semaphore_test.rb test/sync/condition_test.rb test/sync/promise_test.rb test/sync/barrier_test.rb
             test/task/children_test.rb test/task/context_test.rb test/task/timing_test.rb].freeze
  # Traces the return of methods (support/strikes.rb).
  DEBUG = "--debug"
  # What waits for a Thread::Queue on a scheduler, and what starts a Ruby, which has no program of
  # its own there.
  LEFT_OUT = "/LoopMixedTest|test_a_trap_handler_emits_signals_and_stops/"
  # bin/jruby: it cannot be had here.
  NOT_HERE = 69

  def self.time_limit_s
    800
  end

  def test_the_portable_engine_passes_its_tests
    output = run_program(jruby_environment, File.expand_path("../bin/jruby", __dir__), DEBUG, "-Ilib", "-Itest/jruby", "-Itest",
      *FILES.flat_map { |path| ["-r./#{path}"] }, "-e", "", "--", "--exclude", LEFT_OUT, within_s: 700)
    skip output.err if output.status.exitstatus == NOT_HERE
    assert output.status.success?, "#{output.out}#{output.err}"
    runs = output.out[/^(\d+) runs, \d+ assertions, 0 failures, 0 errors, \d+ skips$/, 1].to_i
    assert_operator runs, :>, 150, output.out
  end

  private

  # The gems of this Ruby are nothing for JRuby.
  def jruby_environment
    without_bundle.merge("GYRE_BACKEND" => nil, "LC_ALL" => "C.UTF-8", "GEM_PATH" => nil, "GEM_HOME" => nil, "JRUBY_OPTS" => nil, "LD_PRELOAD" => nil)
  end
end
