# frozen_string_literal: true

require "test_helper"
require "event_machine/reactors"
require "tmpdir"

# How the reactor runs, and what becomes of callbacks that raise or park.
class EventMachineReactorTest < Minitest::Test
  include GyreTest::Reactors

  def test_run_calls_the_block_and_ticks_in_order_and_returns_after_stop
    calls = []
    EM.next_tick { calls << :before }
    run_reactor do
      calls << :block
      EM.next_tick { calls << :tick and EM.stop }
    end
    assert_equal %i[block before tick], calls
    refute EM.reactor_running?
  end

  def test_run_within_run_only_calls_its_block
    inner = nil
    run_reactor { EM.run { inner = EM.reactor_thread? and EM.stop } }
    assert inner
  end

  def test_a_tick_within_a_tick_waits_for_the_next_turn
    calls = []
    run_reactor do
      EM.next_tick do
        EM.next_tick { calls << :third and EM.stop }
        calls << :first
      end
      EM.next_tick { calls << :second }
    end
    assert_equal %i[first second third], calls
  end

  # Sends the second part of its answer in a tick.
  module Handshake
    def receive_data(_)
      send_data("handshake")
      Gyre::EventMachine.next_tick { send_data("frame") }
    end
  end

  def test_a_tick_runs_after_the_bytes_sent_before_it_and_their_receive_data
    received = []
    told = ->(name, _, data = nil) { received << data and received.join == "handshakeframe" && EM.stop if name == :receive_data }
    Dir.mktmpdir do |folder| # a Unix socket has sent bytes at its other end at once
      path = File.join(folder, "socket")
      run_reactor do
        EM.start_unix_domain_server(path, Handshake)
        EM.connect_unix_domain(path, Told, told) { |client| client.send_data("hello") }
      end
    end
    assert_equal %w[handshake frame], received
  end

  def test_timers_fire_in_order_and_a_cancelled_one_never
    calls = []
    run_reactor do
      EM.add_timer(60) { calls << 60 }
      EM.add_timer(nil) { calls << 0 }
      EM.add_timer(0.01) { calls << 1 }
      EM.cancel_timer(EM.add_timer(0.02) { calls << 2 })
      EM::Timer.new(0.02) { calls << :cancelled }.cancel
      EM.add_timer(0.03) { calls << 3 and EM.stop }
    end
    assert_equal [0, 1, 3], calls
  end

  def test_a_periodic_timer_fires_until_it_is_cancelled
    count = 0
    run_reactor do
      timer = EM.add_periodic_timer(0.001) do
        timer.cancel if (count += 1) == 3
        EM.add_timer(0.02) { EM.stop } if count == 3
      end
    end
    assert_equal 3, count
  end

  def test_an_exception_leaves_run_after_the_shutdown_hooks
    order = []
    error = assert_raises(ArgumentError) do
      run_reactor do
        EM.add_shutdown_hook { order << :first }
        EM.add_shutdown_hook { order << :second }
        EM.next_tick { raise ArgumentError, "told" }
      end
    end
    assert_equal "told", error.message
    assert_equal %i[second first], order
    refute EM.reactor_running?
  end

  def test_the_error_handler_takes_exceptions_and_the_reactor_goes_on
    errors = []
    EM.error_handler { |error| errors << error.message }
    run_reactor do
      EM.next_tick { raise "one" }
      EM.next_tick { raise "two" }
      EM.next_tick { EM.stop }
    end
    assert_equal %w[one two], errors
  end

  def test_exit_in_a_callback_leaves_run
    EM.error_handler { flunk }
    assert_raises(SystemExit) { run_reactor { exit } }
  end

  def test_a_callback_may_sleep_while_others_go_on
    calls = []
    run_reactor do
      EM.next_tick do
        EM.add_timer(0.01) { calls << :timer }
        sleep(0.001) until calls.size == 2
        calls << :slept
        EM.stop
      end
      EM.next_tick { calls << :tick }
    end
    assert_equal %i[tick timer], calls.first(2).sort
    assert_equal :slept, calls.last
  end

  def test_a_callback_that_still_waits_at_the_end_is_stopped
    ended = false
    run_reactor do
      EM.next_tick do
        sleep
      ensure
        ended = true
      end
      EM.next_tick { EM.stop }
    end
    assert ended
  end

  def test_stop_and_next_tick_work_from_another_thread
    thread = nil
    run_reactor { Thread.new { EM.next_tick { thread = Thread.current and EM.stop } } }
    assert_same Thread.current, thread
  end

  def test_a_task_and_the_reactor_share_one_loop
    calls = []
    Gyre.run do |task|
      run_reactor do
        calls << :reactor
        task.async { 3.times { calls << :task and sleep(0.005) } && EM.stop }
      end
      calls << :over
    end
    assert_equal %i[reactor task task task over], calls
  end

  def test_a_callback_may_start_tasks
    value = nil
    run_reactor { EM.stop if (value = Gyre::Task.current.async { sleep(0.001) and :value }.wait) }
    assert_equal :value, value
  end

  def test_ticks_of_the_last_turn_are_called_before_the_end
    called = Hash.new { |calls, name| calls[name] = [] }
    stop = lambda do |name|
      EM.next_tick { (called[name] << :tick) && EM.next_tick { called[name] << :tick_of_a_tick } }
      EM.stop
    end
    run_reactor { stop[:block] }
    run_reactor { EM.add_timer(0) { stop[:timer] } }
    run_reactor { Thread.new { stop[:thread] } }
    run_reactor { EM.next_tick { stop[:tick] } } # its ticks belong to the next turn
    assert_equal({ block: [:tick], timer: [:tick], thread: [:tick] }, called)
  end

  def test_ticks_from_before_the_reactor_and_from_its_block_go_on
    calls = []
    EM.next_tick { (calls << :before) && EM.next_tick { calls << :later and EM.stop } }
    run_reactor { EM.next_tick { calls << :block } }
    assert_equal %i[before block later], calls
  end

  def test_callbacks_share_the_fiber_locals_of_the_caller_of_run
    seen = []
    Thread.current[:gyre_test] = 1
    run_reactor do
      see = -> { seen << Thread.current[:gyre_test] }
      see.call
      Thread.current[:gyre_test] = 2
      EM.next_tick do
        EM.add_timer(0.001) { see.call and Thread.current[:gyre_test] = 3 }
        sleep 0.005
        see.call # its own fiber's
        EM.next_tick { see.call and Thread.current[:gyre_test] = nil }
        EM.next_tick { see.call and Thread.current[:gyre_test] = 4 and EM.stop }
      end
    end
    assert_equal [1, 2, 2, 3, nil, 4], [*seen, Thread.current[:gyre_test]]
  ensure
    Thread.current[:gyre_test] = nil
  end

  def test_each_thread_has_a_reactor_if_requested
    EM.one_for_each_thread = true
    ran = Array.new(2) do
      Thread.new { [].tap { |threads| EM.run { EM.add_timer(0.01) { threads << EM.reactor_thread and EM.stop } } } }
    end
    assert_equal(ran.map { |thread| [thread] }, ran.map(&:value))
  ensure
    EM.one_for_each_thread = false
  end

  def test_each_tick_is_called_though_all_before_it_raise
    errors = []
    EM.error_handler { |error| errors << error.message }
    run_reactor do
      3.times { |number| EM.next_tick { raise number.to_s } }
      EM.next_tick { EM.stop }
    end
    assert_equal %w[0 1 2], errors
  end

  def test_an_io_that_the_program_closes_is_unbound_and_the_reactor_goes_on
    unbound = 0
    pipes = Array.new(3) { IO.pipe }
    run_reactor do
      pipes.each { |reader, _| EM.watch(reader, Told, ->(name, *) { EM.stop if name == :unbind && (unbound += 1) == 3 }).notify_readable = true }
      EM.add_timer(0.01) { pipes.each { |reader, _| reader.close } }
    end
    assert_equal 3, unbound
  ensure
    pipes&.flatten&.each(&:close)
  end

  def test_a_reactor_that_ends_leaves_the_deferred_work_of_other_threads_alone
    EM.one_for_each_thread = true
    begun, go, kept = Array.new(3) { Thread::Queue.new }
    other = Thread.new { EM.run { EM.defer(-> { begun.push(true) and go.pop }, ->(value) { kept << value and EM.stop }) } }
    begun.pop
    Thread.new { EM.run { EM.stop } }.join
    go << :kept
    assert other.join(60), "its work was lost"
    assert_equal :kept, kept.pop
  ensure
    other&.kill
    EM.one_for_each_thread = false
    EM.stop_threads
  end
end
