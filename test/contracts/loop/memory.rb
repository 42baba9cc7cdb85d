# frozen_string_literal: true

# What it keeps alive, what it lets go, what it allocates. In programs of their own, where nothing
# else allocates.
module LoopContract
  # The collector and the loop.
  module Memory
    def test_keys_and_ios_survive_the_collector_and_compaction
      output = program(<<~'RUBY')
        def watch(index)
          reader, writer = IO.pipe
          LOOP.watch_io(["key", index], reader, false, false)
          writer.write_nonblock("x")
          LOOP.watch_timer("timer#{index}", 0.01, 0)
          LOOP.emit("event#{index}")
          writer
        end
        writers = Array.new(20) { |index| watch(index) }
        3.times { GC.start; GC.compact if GC.respond_to?(:compact) }
        100_000.times { "x" + "y" }
        keys = []
        GC.stress = true
        LOOP.each { |key| keys << key; LOOP.stop if keys.uniq.size == 60 }
        GC.stress = false
        p keys.uniq.map(&:to_s).sort == (0...20).flat_map { |index| [["key", index].to_s, "timer#{index}", "event#{index}"] }.sort
      RUBY
      assert_equal ["true\n", ""], [output.out, output.err]
    end

    def test_everything_works_while_the_collector_runs_at_each_allocation
      output = program(<<~'RUBY')
        GC.stress = true
        reader, writer = IO.pipe
        5.times do |index|
          LOOP.watch_io("key#{index}", reader, false, true)
          LOOP.watch_timer(["timer", index], 0.001, 0)
          writer.write("x")
          keys = [LOOP.next_event, LOOP.next_event]
          p keys.sort_by(&:to_s) unless keys.include?("key#{index}") && keys.include?(["timer", index])
          reader.read_nonblock(1)
          LOOP.unwatch("unknown")
        end
        begin
          LOOP.watch_io(:both, reader, false, false)
          LOOP.watch_io(:both, reader, false, false)
        rescue RuntimeError
          GC.compact if GC.respond_to?(:compact)
        end
        GC.stress = false
      RUBY
      assert_equal ["", ""], [output.out, output.err]
    end

    # Fewer than half: the collector takes what looks like an object's address on a stack for one,
    # which keeps some; a leak keeps all.
    def test_what_is_over_is_let_go
      output = program(<<~'RUBY')
        require "weakref"
        def work
          reader, writer = IO.pipe
          writer.write("x")
          references = Array.new(20) do |index|
            key = "key" + index.to_s
            LOOP.watch_io(key, reader, false, index.even?)
            WeakRef.new(key)
          end
          20.times { LOOP.next_event }
          references.each_with_index { |reference, index| LOOP.unwatch("key#{index}") if index.odd? }
          LOOP.signal
          nil while LOOP.next_event
          references
        end
        references = work
        10.times { work }
        GC.start
        p references.count(&:weakref_alive?) < 10
      RUBY
      assert_equal ["true\n", ""], [output.out, output.err]
    end

    def test_memory_stays_flat_over_many_watches
      output = program(<<~'RUBY')
        reader, writer = IO.pipe
        work = lambda do |count|
          count.times do |index|
            LOOP.watch_io(index, reader, index.odd?, false)
            LOOP.watch_timer([index], 100, 1)
            LOOP.unwatch(index)
            LOOP.unwatch([index])
            LOOP.emit("event")
            LOOP.next_event
          end
          GC.start
          File.read("/proc/self/status")[/^VmRSS:\s*(\d+)/, 1].to_i
        end
        work.call(10_000)
        before = work.call(5_000)
        after = work.call(40_000)
        p after - before < 3_000 ? :flat : after - before
      RUBY
      assert_equal [":flat\n", ""], [output.out, output.err]
    end

    def test_timers_armed_and_cancelled_allocate_no_object
      skip "the portable engine's timers are Ruby objects" if backend == "select"
      output = program(<<~'RUBY')
        work = lambda do
          100_000.times { |index| LOOP.watch_timer(index, 1.5, 0.5) }
          100_000.times { |index| LOOP.unwatch(index) }
        end
        work.call
        GC.disable
        before = objects
        work.call
        say_none_since(before)
      RUBY
      assert_equal ["none\n", ""], [output.out, output.err]
    end

    def test_each_and_a_oneshot_watch_made_again_allocate_no_object
      skip "the portable engine allocates an Array for each event" if backend == "select"
      output = program(<<~'RUBY')
        reader, writer = IO.pipe
        writer.write("x")
        key = Object.new
        LOOP.watch_io(key, reader, false, true)
        count = 0
        before = nil
        LOOP.each do |event|
          count += 1
          before = objects if count == 100
          LOOP.watch_io(event, reader, false, true)
          LOOP.stop if count == 10_000
        end
        say_none_since(before)
      RUBY
      assert_equal ["none\n", ""], [output.out, output.err]
    end

    def test_an_idle_watch_more_costs_nothing_a_turn
      skip "select(2) takes time for each descriptor" if backend == "select"
      output = program(<<~'RUBY')
        pairs = Array.new(400) { IO.pipe }
        reader, writer = IO.pipe
        LOOP.watch_io(:busy, reader, false, false)
        writer.write("x")
        turns = lambda do
          before = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
          5_000.times { LOOP.next_event }
          Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - before
        end
        turns.call
        few = Array.new(5) { turns.call }.min
        pairs.each { |idle, _| 20.times { |index| LOOP.watch_timer([idle, index], 1000, 0) }; LOOP.watch_io(idle, idle, false, false) }
        many = turns.call
        50.times { many = [many, turns.call].min if many >= few * 2 } # others may have the processor, or its caches
        p many < few * 2 ? :constant : [few, many]
      RUBY
      assert_equal [":constant\n", ""], [output.out, output.err]
    end

    # Runs Ruby code that has a LOOP.
    # What counts the objects that a program allocates. A few are the counting's own.
    COUNTING = <<~'RUBY'
      def objects() GC.stat(:total_allocated_objects) end
      def say_none_since(before) (count = objects - before) < 20 ? puts("none") : puts(count) end
    RUBY

    def program(code)
      ruby("-e", "require 'gyre/loop'\n#{COUNTING}LOOP = Gyre::Loop.new(#{backend.inspect})\n#{code}", env: { "GYRE_BACKEND" => nil }, within_s: 110)
    end
  end
end
