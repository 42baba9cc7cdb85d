# frozen_string_literal: true

# Messages from threads and signal handlers: Gyre::Web::Inbox and Gyre::Signals.

require "test_helper"
require "gyre"
require "gyre/web/inbox"
require "gyre/signals"

class WebInboxTest < Minitest::Test
  def setup
    @inbox = Gyre::Web::Inbox.new(:one, :two)
  end

  def teardown
    @inbox.close
  end

  def test_messages_come_in_order
    %i[two one two].each { |message| @inbox.post(message) }
    assert_equal %i[two one two], Array.new(3) { @inbox.take }
  end

  def test_taking_gives_up_when_the_time_is_over
    assert_nil @inbox.take(0.01)
  end

  def test_a_task_waits_without_stopping_others
    order = []
    Gyre.run do |task|
      task.async { order << @inbox.take }
      order << :other
      @inbox.post(:one)
    end
    assert_equal %i[other one], order
  end

  def test_a_thread_wakes_a_waiting_task
    Gyre.run do
      thread = Thread.new { @inbox.post(:two) }
      assert_equal :two, @inbox.take(60)
      thread.join
    end
  end

  def test_a_signal_handler_wakes_a_waiting_task
    before = Gyre.run do
      Gyre::Signals.handle(%w[USR2], ->(_name) { @inbox.post(:one) }) do
        Process.kill("USR2", Process.pid)
        assert_equal :one, @inbox.take(60)
      end
      trap("USR2", "DEFAULT")
    end
    assert_equal "DEFAULT", before
  end

  def test_posting_to_a_closed_inbox_does_no_harm
    @inbox.close
    @inbox.post(:one)
  end

  def test_a_full_pipe_makes_no_caller_wait
    100_000.times { @inbox.post(:one) }
    assert_equal :one, @inbox.take
  end
end
