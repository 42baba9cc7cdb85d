# frozen_string_literal: true

# Other threads, trap handlers, interrupts.
module LoopContract
  # News from elsewhere.
  module Outside
    def test_another_thread_emits_and_wakes_the_loop
      loop = new_loop
      emitter = when_asleep { loop.emit("baz") }
      assert_equal "baz", loop.next_event
      emitter.join
    end

    def test_another_thread_signals_and_stops
      loop = new_loop
      reader, = new_pipe
      loop.watch_io("foo", reader, false, true)
      thread = when_asleep { loop.signal }
      assert_nil loop.next_event
      thread.join
      thread = when_asleep { loop.stop }
      assert_same(loop, loop.each { flunk "there was no event" })
      thread.join
    end

    def test_many_threads_emit_and_nothing_is_lost
      loop = new_loop
      threads = Array.new(4) { |number| Thread.new { 500.times { |index| loop.emit([number, index]) } } }
      keys = in_thread { events(loop, 2000) }
      threads.each(&:join)
      4.times { |number| assert_equal (0...500).to_a, keys.select { |key, _| key == number }.map(&:last) }
    end

    def test_a_trap_handler_emits_signals_and_stops
      output = program(<<~RUBY)
        trap("USR1") { LOOP.emit(:usr1) }
        trap("USR2") { LOOP.signal }
        trap("INT") { LOOP.stop }
        main = Thread.current
        kill = lambda { |name| Thread.new { Thread.pass until main.stop?; Process.kill(name, Process.pid) } }
        kill["USR1"]
        p LOOP.next_event
        kill["USR2"]
        p LOOP.next_event
        kill["INT"]
        LOOP.each { p :none }
        LOOP.emit(:again)
        p LOOP.next_event
      RUBY
      assert_equal [":usr1\nnil\n:again\n", ""], [output.out, output.err]
    end

    def test_ctrl_c_ends_the_wait
      only_on_cruby "Ctrl-C ends the Java machine"
      output = program(<<~RUBY)
        main = Thread.current
        Thread.new { Thread.pass until main.stop?; Process.kill("INT", Process.pid) }
        begin
          LOOP.each { nil }
        rescue Interrupt
          LOOP.emit(:on)
          p LOOP.next_event
        end
      RUBY
      assert_equal [":on\n", ""], [output.out, output.err]
    end

    def test_a_thread_that_waits_can_be_killed_and_raised_in
      loop = new_loop
      thread = Thread.new { loop.each { nil } }
      Thread.pass until thread.stop?
      thread.kill
      assert thread.join(HANG_S)
      thread = Thread.new { loop.next_event }
      thread.report_on_exception = false
      Thread.pass until thread.stop?
      thread.raise(ZeroDivisionError)
      assert_raises(ZeroDivisionError) { thread.join(HANG_S) }
      loop.emit(:on)
      assert_equal :on, loop.next_event
    end

    def test_other_threads_run_while_it_waits
      loop = new_loop
      reader, writer = new_pipe
      loop.watch_io(:io, reader, false, true)
      count = 0
      counter = Thread.new do
        1000.times { count += 1 }
        writer.write("x")
      end
      assert_equal :io, loop.next_event
      counter.join
      assert_equal 1000, count
    end

    def test_a_loop_may_be_made_in_one_thread_and_used_in_another
      loop = new_loop
      reader, writer = new_pipe
      loop.watch_io(:io, reader, false, true)
      writer.write("x")
      assert_equal :io, in_thread { loop.next_event }
      loop.watch_timer(:timer, 0, 0)
      assert_equal :timer, loop.next_event
    end

    def test_two_threads_at_once_are_refused
      loop = new_loop
      thread = Thread.new { loop.each { nil } }
      Thread.pass until thread.stop?
      [-> { loop.next_event }, -> { loop.each { nil } }, -> { loop.watch_timer(:a, 1, 0) }, -> { loop.unwatch(:a) }, -> { loop.close }].each do |call|
        error = assert_raises(ThreadError, &call)
        assert_match(/used by another thread.*only emit, signal and stop/, error.message)
      end
      loop.stop
      assert thread.join(HANG_S)
      loop.watch_timer(:a, 0, 0)
      assert_equal :a, loop.next_event
    end

    def test_a_close_by_another_thread_is_reported_while_the_loop_sleeps
      only_on_cruby "JRuby tells nothing of a close"
      loop = new_loop
      reader, = new_pipe
      loop.watch_io(:io, reader)
      loop.watch_timer(:settled, 0.15, 0)
      assert_equal :settled, loop.next_event # what looks for closed ones now and then has looked
      closer = when_asleep { reader.close }
      assert_match(/watch :io/, assert_raises(IOError) { Timeout.timeout(HANG_S) { loop.next_event } }.message)
      closer.join
    end

    # Runs Ruby code that has a LOOP.
    def program(code)
      ruby("-e", "require 'gyre/loop'\nLOOP = Gyre::Loop.new(#{backend.inspect})\n#{code}", env: { "GYRE_BACKEND" => nil })
    end
  end
end
