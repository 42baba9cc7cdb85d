# frozen_string_literal: true

# What a keyed loop reports of itself.
require "gyre/loop"

module LoopContract
  # Figures.
  module Figures
    def test_figures_count_what_is_watched_and_what_happened
      reader, writer = new_pipe
      loop = Gyre::Loop.new(backend)
      assert_equal [0, 0, 0], loop.stats.values_at(:turns, :descriptors, :timers)
      loop.watch_io(:io, reader, false, true)
      loop.watch_timer(:timer, 100)
      assert_equal [1, 1, 0], loop.stats.values_at(:descriptors, :timers, :tasks)
      writer.write("x")
      assert_equal :io, loop.next_event
      stats = loop.stats
      %i[turns events].each { |name| assert_operator stats[name], :>, 0, name }
      assert_operator stats[:lag_max_s], :>=, stats[:lag_p50_s] unless backend == "select"
    ensure
      loop.close
      assert_raises(RuntimeError) { loop.stats }
    end

    def test_what_a_thread_hands_back_at_once_needs_no_sleep
      skip "the portable engine gives way to threads by its wait only" if backend == "select"
      skip "before Ruby 3.3 a thread that gives way may go on before the others" if RUBY_VERSION < "3.3"
      loop = new_loop
      reader, writer = new_pipe
      writer.write("x") # it stays there
      job = false
      worker = Thread.new do
        while true
          Thread.pass until job
          job = false
          loop.emit(:again)
        end
      end
      again = 0
      loop.watch_io(:io, reader, oneshot: true)
      loop.each do |key|
        next job = true if key == :io
        break if (again += 1) == 100

        loop.watch_io(:io, reader, oneshot: true)
      end
      assert_operator loop.stats[:waits], :<, 20 # 100 where the kernel is asked first
    ensure
      worker&.kill&.join
    end

    def test_a_watch_made_again_by_a_queued_event_is_not_registered_again
      skip "only epoll shows what is registered" unless backend == "epoll" && Dir["/proc/self/fdinfo/*"].any?
      loop = new_loop
      reader, writer = new_pipe
      writer.write("x")
      loop.watch_io(:io, reader, oneshot: true)
      before = registrations(reader)
      loop.each do |key|
        break loop.watch_io(:io, reader, oneshot: true) if key == :again

        reader.read_nonblock(1)
        loop.emit(:again)
        wait_for_a_tick # then the kernel is asked before the event is taken
      end
      assert_equal before, registrations(reader)
    end

    def test_what_has_fired_is_forgotten_also_where_the_queue_is_never_empty
      loop = new_loop
      reader, writer = new_pipe
      writer.write("x")
      loop.watch_io(:io, reader, oneshot: true)
      loop.emit(:next)
      fired = false
      in_thread do
        loop.each do |key|
          fired ||= key == :io
          break if fired && loop.stats[:descriptors].zero?

          loop.emit(:next) if key == :next
        end
      end
    end

    # Of the clock by which a busy loop asks the kernel now and then.
    def wait_for_a_tick
      begin_s = Process.clock_gettime(Process::CLOCK_MONOTONIC_COARSE)
      sleep 0.001 until Process.clock_gettime(Process::CLOCK_MONOTONIC_COARSE) > begin_s
    end
  end
end
