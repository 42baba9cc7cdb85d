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

  def setup
    @loop = Loop.new(0)
    @inbox = Gyre::Scheduler::Portable::Inbox.new(@loop)
  end

  def test_messages_come_out_in_their_order_and_each_wakes_the_loop
    assert_empty @inbox
    @inbox.push(1, :one)
    Thread.new { @inbox.push(2, :two) }.join
    refute_empty @inbox
    assert_equal 2, @loop.wakes
    assert_equal [[1, :one], [2, :two]], taken
    assert_empty @inbox
  end

  def test_a_message_whose_treatment_was_interrupted_is_treated_again
    @inbox.push(1)
    @inbox.push(2)
    assert_raises(Interrupt) { @inbox.each { raise Interrupt } } # rubocop:disable Lint/UnreachableLoop -- the raise is the test
    refute_empty @inbox
    assert_equal [[1], [2]], taken
  end

  def test_a_message_may_be_pushed_in_a_trap_handler
    before = Signal.trap("USR1") { @inbox.push(:signal) }
    Process.kill(:USR1, Process.pid)
    eventually { !@inbox.empty? }
    assert_equal [[:signal]], taken
  ensure
    Signal.trap("USR1", before)
  end

  private

  def taken
    [].tap { |messages| @inbox.each { |*message| messages << message } }
  end
end
