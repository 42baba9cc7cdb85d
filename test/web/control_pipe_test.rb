# frozen_string_literal: true

# Messages from threads and signal handlers: Gyre::Web::ControlPipe and Gyre::Signals.

require "test_helper"
require "gyre"
require "gyre/web/control_pipe"
require "gyre/signals"

class WebControlPipeTest < Minitest::Test
  def setup
    @control = Gyre::Web::ControlPipe.new(:one, :two)
  end

  def teardown
    @control.close
  end

  def test_messages_come_in_order
    %i[two one two].each { |message| @control.post(message) }
    assert_equal %i[two one two], Array.new(3) { @control.take }
  end

  def test_taking_gives_up_when_the_time_is_over
    assert_nil @control.take(0.01)
  end

  def test_a_task_waits_without_stopping_others
    order = []
    Gyre.run do |task|
      task.async { order << @control.take }
      order << :other
      @control.post(:one)
    end
    assert_equal %i[other one], order
  end

  def test_a_thread_wakes_a_waiting_task
    Gyre.run do
      thread = Thread.new { @control.post(:two) }
      assert_equal :two, @control.take(60)
      thread.join
    end
  end

  def test_a_signal_handler_wakes_a_waiting_task
    before = Gyre.run do
      Gyre::Signals.handle(%w[USR2], ->(_name) { @control.post(:one) }) do
        Process.kill("USR2", Process.pid)
        assert_equal :one, @control.take(60)
      end
      trap("USR2", "DEFAULT")
    end
    assert_equal "DEFAULT", before
  end

  def test_posting_to_a_closed_pipe_does_no_harm
    @control.close
    @control.post(:one)
  end

  def test_a_full_pipe_makes_no_caller_wait
    100_000.times { @control.post(:one) }
    assert_equal :one, @control.take
  end
end
