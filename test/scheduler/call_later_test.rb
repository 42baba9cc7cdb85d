# frozen_string_literal: true

require "test_helper"
require "gyre"
require "gyre/testing"

# Scheduler#call_later: a call of the future that holds no fiber.
class SchedulerCallLaterTest < Minitest::Test
  def setup
    skip "the portable engine has no call_later" unless Gyre::Scheduler.method_defined?(:call_later)
  end

  def test_it_calls_in_a_fiber_of_its_own
    calls = Thread::Queue.new
    Gyre.run do
      assert Fiber.scheduler.call_later(0.01, -> { sleep(0.001) && calls << Fiber.current })
      GC.start
      refute_same Fiber.current, calls.pop
    end
  end

  def test_it_keeps_no_loop_running
    from_s = monotonic_s
    Gyre.run { Fiber.scheduler.call_later(600, -> { flunk }) }
    assert_operator monotonic_s - from_s, :<, 300
  end

  def test_a_virtual_clock_does_not_jump_to_it
    Gyre::Testing.run { refute Fiber.scheduler.call_later(1, -> { flunk }) }
  end
end
