# frozen_string_literal: true

# What drives the portable scheduler's loop, and until when.
require "test_helper"
require "support/on_portable"

class PortableDriveTest < Minitest::Test
  include GyreTest::OnPortable

  Drive = Gyre::Scheduler::Portable::Fibers::Drive

  def test_a_drive_is_done_when_its_condition_is_true
    asked = []
    drive = Drive.new(Fiber.current, nil, false, ->(itself) { asked << itself and asked.size > 1 })
    refute_predicate drive, :done?
    assert_predicate drive, :done?
    assert_same drive, asked.first
  end

  def test_a_condition_that_raises_counts_as_fulfilled_for_others
    drive = Drive.new(Fiber.current, nil, false, ->(_) { raise IOError })
    assert_predicate drive, :fulfilled?
    assert_raises(IOError) { drive.done? }
  end

  def test_what_a_condition_raises_leaves_through_its_own_run_until
    with_scheduler do |scheduler|
      outcome = nil
      stage = 0
      scheduler.spawn do
        scheduler.run_until { stage == 1 && raise(IOError, "from the condition") }
      rescue IOError => error
        outcome = error.message
      end
      scheduler.spawn { sleep(0.001).then { stage = 1 } }
      scheduler.run
      assert_equal "from the condition", outcome
    end
  end
end
