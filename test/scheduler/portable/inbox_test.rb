# frozen_string_literal: true

# The way from other threads to the portable scheduler's fibers.
require "test_helper"
require "gyre/scheduler"

class PortableInboxTest < Minitest::Test
  # Counts how often it was woken.
  Loop = Struct.new(:wakes) do
    def wake
      self.wakes += 1
    end
  end

  # Those of another thread.
  class Fibers
    def here? = false
  end

  # Records what arrives instead of ending waits.
  class Recorded < Gyre::Scheduler::Portable::Inbox
    attr_accessor :arrived, :interrupted_by

    private

    def unblocked(_fiber, blocker)
      raise interrupted_by if interrupted_by

      (self.arrived ||= []) << blocker
    end
  end

  def setup
    @loop = Loop.new(0)
    @inbox = Recorded.new(Fibers.new, @loop)
  end

  def test_messages_come_out_in_their_order_and_each_wakes_the_loop
    assert_empty @inbox
    @inbox.unblock(Fiber.current, :one)
    Thread.new { @inbox.unblock(Fiber.current, :two) }.join
    refute_empty @inbox
    assert_equal 2, @loop.wakes
    assert_equal %i[one two], taken
    assert_empty @inbox
  end

  def test_a_message_whose_treatment_was_interrupted_is_treated_again
    [1, 2].each { |number| @inbox.unblock(Fiber.current, number) }
    @inbox.interrupted_by = Interrupt
    assert_raises(Interrupt) { @inbox.receive }
    refute_empty @inbox
    @inbox.interrupted_by = nil
    assert_equal [1, 2], taken
  end

  def test_a_message_may_be_pushed_in_a_trap_handler
    before = Signal.trap("USR1") { @inbox.unblock(Fiber.current, :signal) }
    Process.kill(:USR1, Process.pid)
    eventually { !@inbox.empty? }
    assert_equal [:signal], taken
  ensure
    Signal.trap("USR1", before)
  end

  private

  def taken
    @inbox.receive
    @inbox.arrived
  end
end
