# frozen_string_literal: true

# A forked child begins with nothing watched and nothing queued; the parent notices nothing.
module LoopContract
  # fork, with and without a scheduler.
  module Forking
    def test_the_childs_loop_is_fresh_and_the_parents_untouched
      loop = new_loop
      reader, writer = new_pipe
      loop.watch_io(:io, reader, false, false)
      loop.watch_timer(:timer, 0.001, 0.001)
      loop.emit(:queued)
      status = in_child do
        watched = loop.watching?(:io)
        loop.watch_io(:io, reader, false, true)
        loop.emit(:mine)
        first = loop.next_event
        loop.signal
        !watched && first == :mine && loop.next_event.nil?
      end
      assert_predicate status, :success?
      assert_equal :queued, loop.next_event
      assert_equal :timer, loop.next_event
      loop.unwatch(:timer)
      writer.write("x")
      assert_equal :io, loop.next_event
    end

    def test_a_closed_loop_is_closed_in_the_child_too
      loop = new_loop
      loop.watch_timer(:timer, 0, 0).next_event
      loop.close
      status = in_child do
        loop.emit(:news)
        loop.signal
        refused = begin
          loop.watch_timer(:timer, 0, 0) && false
        rescue RuntimeError
          true
        end
        loop.closed? && refused
      end
      assert_predicate status, :success?
    end

    def test_a_handler_may_fork
      loop = new_loop
      loop.emit(:fork)
      loop.emit(:after)
      keys = []
      loop.each do |key|
        keys << key
        assert_predicate in_child { loop.watch_timer(:a, 0, 0).next_event == :a }, :success? if key == :fork
        loop.stop if key == :after
      end
      assert_equal %i[fork after], keys
    end

    def test_a_thread_that_used_it_is_forgotten_in_the_child
      loop = new_loop
      thread = Thread.new { loop.each { nil } }
      Thread.pass until thread.stop?
      assert_predicate in_child { loop.watch_timer(:a, 0, 0).next_event == :a }, :success?
      loop.stop
      assert thread.join(HANG_S)
    end

    def test_a_fiber_may_fork
      in_thread do
        Gyre.run do
          loop = new_loop
          loop.watch_timer(:timer, 0.02, 0)
          status = in_child { !loop.watching?(:timer) && loop.watch_timer(:a, 0, 0).next_event == :a }
          assert_predicate status, :success?
          assert_equal :timer, loop.next_event
        end
      end
    end

    def test_a_signal_that_the_parent_watches_has_its_default_in_the_child_once_the_loop_is_used
      loop = new_loop
      loop.watch_signal(:usr1, "USR1")
      status = in_child do
        loop.signal
        loop.next_event
        trap("USR1", "DEFAULT") == "DEFAULT"
      end
      assert_predicate status, :success?
      Process.kill(:USR1, Process.pid)
      assert_equal :usr1, in_thread { loop.next_event }
    end

    def test_a_helper_that_cannot_be_cancelled_leaves_the_child_a_fresh_loop
      loop = new_loop
      loop.watch_io(:io, new_pipe.first, false, false)
      pid = Process.pid
      helper = Gyre::Loop::SignalWatch.new(loop, :usr1, "USR1")
      helper.define_singleton_method(:cancel) { Process.pid == pid ? super() : raise("cancel") }
      loop.send(:start_helper, :usr1, helper)
      status = in_child do
        error = assert_raises(RuntimeError) { loop.signal }
        writer = new_pipe.tap { |reader, _| loop.watch_io(:mine, reader, false, true) }.last
        writer.write("x")
        error.message == "cancel" && !loop.watching?(:io) && loop.next_event == :mine
      end
      assert_predicate status, :success?
    end

    def test_a_signal_that_the_parent_watches_does_in_a_child_what_it_did
      loop = new_loop
      loop.watch_signal(:usr1, "USR1")
      status = in_child do
        Process.kill(:USR1, Process.pid)
        sleep HANG_S
      rescue SignalException => error
        error.signo == Signal.list["USR1"]
      end
      assert_predicate status, :success?
    end

    # Returns a success when the block is true in the child.
    def in_child
      pid = fork do
        fine = false
        begin
          fine = Timeout.timeout(HANG_S) { yield }
        ensure
          exit!(fine ? 0 : 1)
        end
      end
      Process.wait2(pid).last
    end
  end
end
