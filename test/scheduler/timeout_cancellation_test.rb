# frozen_string_literal: true

# A timeout of Ruby's whose time is over while a stop, or the end of a deadline, unwinds its block.

require "test_helper"
require "support/engines"
require "gyre"
require "support/portable_simulation"
require "timeout"

GyreTest::Engines.test_case("SchedulerCancellationTest", backends: GyreTest::Engines::ALL) do
  def test_a_timeout_of_rubys_whose_time_is_over_while_a_stop_unwinds_does_not_replace_the_stop
    timeouts.each do |name, timed|
      waits = -> { timed.call { sleep_and_clean_up { sleep } } }
      assert_equal :stopped, stopped_in { rescuing(Timeout::Error, IOError, &waits) }, name
    end
  end

  def test_it_does_not_replace_the_end_of_an_outer_deadline_but_that_of_an_inner_one
    timeouts.each do |name, timed|
      Gyre::Testing.run do |task| # no time passes between the one timeout and the other
        assert_raises(Gyre::TimeoutError, name.to_s) do
          task.with_timeout(0.001) { rescuing(Timeout::Error, IOError) { timed.call { sleep_and_clean_up { sleep } } } }
        end
        assert_raises(Timeout::Error, IOError, name.to_s) { timed.call { task.with_timeout(0.001) { sleep_and_clean_up { sleep } } } }
        assert_raises(Timeout::Error, IOError, name.to_s) { timed.call { rescuing(Gyre::TimeoutError) { task.with_timeout(0.001) { sleep } } } }
      end
    end
  end

  def test_cleaning_up_after_a_stop_may_have_a_timeout_of_rubys
    timeouts.each do |name, timed|
      gave_up = nil
      status = stopped_in do
        sleep_and_clean_up do
          timed.call { sleep }
        rescue Timeout::Error, IOError
          gave_up = true
        end
      end
      assert_equal [:stopped, true], [status, gave_up], name
    end
  end

  private

  # What Timeout.timeout calls, and how later versions of the timeout gem do it.
  def timeouts
    {
      plain: ->(&block) { Timeout.timeout(0.005, &block) },
      class: ->(&block) { Timeout.timeout(0.005, IOError, &block) },
      hook: ->(&block) { Fiber.scheduler.timeout_after(0.005, &block) },
      wrapped: lambda do |&block|
        own = Class.new(Exception) { def exception(*) = self }.new("execution expired") # rubocop:disable Lint/InheritException
        begin
          Fiber.scheduler.timeout_after(0.005, own, "execution expired", &block)
        rescue Exception => error # rubocop:disable Lint/RescueException
          raise unless error.equal?(own)

          raise Timeout::Error, error.message
        end
      end,
      inner_fiber: ->(&block) { Fiber.new(blocking: false) { Timeout.timeout(0.005, &block) }.resume }
    }
  end

  def stopped_in(&block)
    Gyre.run do |task|
      child = task.async(&block)
      child.stop
      task.with_timeout(60) { child.wait }
      child.status
    end
  end

  def sleep_and_clean_up
    sleep
  ensure
    yield
  end

  # A program that goes on after its timeout.
  def rescuing(*errors)
    yield
  rescue *errors
    sleep
  end
end
