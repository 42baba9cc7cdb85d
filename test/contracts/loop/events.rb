# frozen_string_literal: true

# The queue: emit, stop, signal, each, next_event.
module LoopContract
  # Events that the program makes itself.
  module Events
    def test_events_come_in_the_order_in_which_they_were_emitted
      loop = new_loop
      [1, 2, 3].each { |key| loop.emit(key) }
      keys = []
      loop.each do |key|
        keys << key
        loop.emit(:stop) if key == 3
      end
      assert_equal [1, 2, 3], keys
    end

    def test_the_methods_return_what_ever_returns
      loop = new_loop
      reader, = new_pipe
      assert_same loop, loop.watch_io(1, reader, false, true)
      assert_same loop, loop.watch_timer(2, 100, 0)
      assert_same loop, loop.unwatch(1)
      assert_same loop, loop.unwatch("unknown")
      assert_equal :key, loop.emit(:key)
      assert_same loop, loop.signal
      assert_same loop, loop.stop
      assert_same(loop, loop.each { nil })
      assert_equal :stop, loop.emit(:stop)
    end

    def test_keys_may_be_of_any_kind_and_the_very_object_comes_back
      loop = new_loop
      string = +"text"
      array = [1, [2]]
      keys = [nil, false, 0, 1.5, 2**70, string, array, { a: 1 }, Object.new, $stdout, :symbol, Class.new, Struct.new(:a).new(1)]
      keys.each { |key| loop.emit(key) }
      keys.zip(events(loop, keys.size)) { |key, event| assert_same key, event }
    end

    def test_an_event_emitted_in_a_batch_comes_in_the_next
      loop = new_loop
      loop.emit(:a)
      loop.emit(:b)
      keys = []
      loop.each do |key|
        keys << key
        loop.emit(:c) if key == :a
        loop.stop if key == :c
      end
      assert_equal %i[a b c], keys
    end

    def test_stop_takes_effect_after_the_batch
      loop = new_loop
      [1, 2, 3].each { |key| loop.emit(key) }
      keys = []
      loop.each do |key|
        keys << key
        loop.stop if key == 1
        loop.emit(:late) if key == 3
      end
      assert_equal [1, 2, 3], keys
      assert_equal :late, loop.next_event
    end

    def test_a_stop_before_each_is_not_lost
      loop = new_loop
      loop.stop
      in_thread { loop.each { flunk "there was no event" } }
      loop.emit(:a)
      loop.emit(:stop)
      keys = []
      in_thread { loop.each { |key| keys << key } }
      assert_equal [:a], keys
    end

    def test_break_loses_no_event
      loop = new_loop
      [1, 2, 3].each { |key| loop.emit(key) }
      assert_equal(:out, loop.each { break :out }) # rubocop:disable Lint/UnreachableLoop -- the break is the test
      assert_equal [2, 3], events(loop, 2)
    end

    def test_an_exception_in_the_block_loses_no_event
      loop = new_loop
      [1, 2, 3].each { |key| loop.emit(key) }
      assert_raises(ZeroDivisionError) { loop.each { 1 / 0 } }
      assert_equal [2, 3], events(loop, 2)
    end

    def test_each_can_be_used_inside_each
      loop = new_loop
      [1, 2, 3].each { |key| loop.emit(key) }
      inner = outer = nil
      loop.each do |key|
        outer = key
        next loop.stop if key == 4

        inner = events(loop, 2)
        loop.emit(4)
      end
      assert_equal [[2, 3], 4], [inner, outer]
    end

    def test_each_without_a_block_is_an_error
      assert_raises(LocalJumpError) { new_loop.each }
    end

    def test_next_event_takes_one_at_a_time
      loop = new_loop
      loop.emit(:a)
      loop.emit(nil)
      loop.emit(:b)
      assert_equal [:a, nil, :b], Array.new(3) { loop.next_event }
    end

    def test_a_signal_and_a_stop_end_next_event_with_nil
      loop = new_loop
      loop.signal
      assert_nil in_thread { loop.next_event }
      loop.stop
      assert_nil in_thread { loop.next_event }
      loop.signal
      loop.emit(:a)
      assert_equal :a, loop.next_event
      assert_nil in_thread { loop.next_event }
    end

    def test_a_loop_with_nothing_to_watch_sleeps
      loop = new_loop
      asleep_s = RUBY_ENGINE == "jruby" ? 2 : 0.2 # its machine has threads that compute
      before_s = cpu_s
      emitter = when_asleep do
        sleep asleep_s
        loop.emit(:a)
      end
      assert_equal :a, loop.next_event
      emitter.join
      assert_operator cpu_s - before_s, :<, asleep_s * 0.75
    end

    def test_a_queue_that_is_never_empty_does_not_keep_timers_and_descriptors_away
      loop = new_loop
      reader, writer = new_pipe
      writer.write("x")
      loop.watch_io(:io, reader, false, true)
      loop.watch_timer(:timer, 0.001, 0)
      loop.emit(:busy)
      seen = []
      in_thread do
        loop.each do |key|
          key == :busy ? loop.emit(:busy) : seen << key
          loop.stop if seen.size == 2
        end
      end
      assert_equal %i[io timer], seen.sort
    end

    def test_a_long_queue_that_is_never_empty_does_not_keep_away_what_was_ready_twice_meanwhile
      loop = new_loop
      reader, writer = new_pipe
      writer.write("x")
      loop.watch_io(:io, reader, false, false)
      (RUBY_ENGINE == "jruby" ? 5_000 : 50_000).times { loop.emit(:busy) } # JRuby is slow when it has just started
      seen = 0
      in_thread do
        loop.next_event == :busy ? loop.emit(:busy) : seen += 1 while seen < 3
      end
    end

    def test_a_closed_loop_refuses_work_but_not_news
      loop = new_loop
      loop.watch_timer(:timer, 100, 0)
      loop.close
      assert_predicate loop, :closed?
      assert_nil loop.close
      assert_equal :a, loop.emit(:a)
      loop.signal
      loop.stop
      error = assert_raises(RuntimeError) { loop.next_event }
      assert_equal "the loop is closed", error.message
      assert_raises(RuntimeError) { loop.watch_timer(:b, 1, 0) }
    end

    def test_close_inside_each_ends_it
      loop = new_loop
      loop.emit(1)
      loop.emit(2)
      keys = []
      loop.each do |key|
        keys << key
        loop.close
      end
      assert_equal [1], keys
    end

    def test_inspect_names_the_backend
      loop = new_loop
      assert_match(/\A#<Gyre::Loop #{backend}>\z/, loop.inspect)
      loop.close
      assert_match(/ closed>\z/, loop.inspect)
    end
  end
end
