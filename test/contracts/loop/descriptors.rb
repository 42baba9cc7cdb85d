# frozen_string_literal: true

# watch_io, watch_fd, unwatch.
require "fcntl"
require "socket"

module LoopContract
  # What happens to descriptors.
  module Descriptors
    def test_a_oneshot_watch_gives_one_event
      loop = new_loop
      reader, writer = new_pipe
      loop.watch_io(:io, reader, false, true)
      refute_nil loop.watching?(:io)
      writer.write("x")
      assert_equal :io, loop.next_event
      refute loop.watching?(:io)
      loop.signal
      assert_nil loop.next_event
    end

    def test_a_persistent_watch_comes_again_until_it_is_read_empty
      loop = new_loop
      reader, writer = new_pipe
      loop.watch_io(:io, reader, false, false)
      writer.write("abc")
      read = +""
      3.times { read << reader.read_nonblock(1) if loop.next_event == :io }
      assert_equal "abc", read
      loop.signal
      assert_nil loop.next_event
      writer.write("d")
      assert_equal :io, loop.next_event
    end

    def test_a_persistent_watch_whose_event_was_long_in_the_queue_comes_again
      loop = new_loop
      watched = %i[a b c].to_h do |key|
        reader, writer = new_pipe
        loop.watch_io(key, reader, false, false)
        writer.write("x")
        [key, reader]
      end
      keys = Array.new(3) do
        until_s = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 0.01
        Thread.pass while Process.clock_gettime(Process::CLOCK_MONOTONIC) < until_s # the program is busy
        loop.next_event
      end
      assert_equal watched.keys, keys.sort
      assert_equal watched.keys, Array.new(20) { loop.next_event }.uniq.sort
    end

    def test_keywords_mean_the_same
      loop = new_loop
      reader, writer = new_pipe
      loop.watch_io(:w, writer, write: true, oneshot: true)
      assert_equal :w, loop.next_event
      loop.watch_io(:r, reader, oneshot: true)
      loop.signal
      assert_nil loop.next_event
      writer.write("x")
      assert_equal :r, loop.next_event
      assert_raises(ArgumentError) { loop.watch_io(:n, reader, read: false) }
      assert_raises(ArgumentError) { loop.watch_io(:n, reader, nonsense: 1) }
    end

    def test_a_watch_for_reading_and_writing_comes_for_each
      loop = new_loop
      one, other = UNIXSocket.pair
      @ios.push(one, other)
      loop.watch_io(:both, one, read: true, write: true, oneshot: true)
      assert_equal :both, loop.next_event # there is room to write
      one.write_nonblock("x" * 65_536) while one.wait_writable(0)
      loop.watch_io(:both, one, read: true, write: true, oneshot: true)
      loop.signal
      assert_nil loop.next_event
      other.write("x")
      assert_equal :both, loop.next_event # there is something to read
    end

    def test_one_io_may_be_watched_under_two_keys
      loop = new_loop
      one, other = UNIXSocket.pair
      @ios.push(one, other)
      other.write("x")
      loop.watch_io(:read, one, false, true)
      loop.watch_io(:write, one, true, true)
      assert_equal %i[read write], events(loop, 2).sort
    end

    def test_a_key_that_is_in_use_is_refused_in_evers_words
      loop = new_loop
      reader, = new_pipe
      keys = [:symbol, "text", [1, "a"], 12, nil, 2**70, Object.new]
      keys.each { |key| loop.watch_io(key, reader, false, false) }
      ["text".dup, [1, "a".dup], 2**70, *keys].each do |key|
        error = assert_raises(RuntimeError) { loop.watch_timer(key, 1, 0) }
        assert_equal "Duplicate event key detected, event key must be unique", error.message
      end
      loop.watch_timer(12.0, 0, 0) # eql? tells it from 12
      assert_equal 12.0, loop.next_event
    end

    def test_a_key_is_found_as_a_hash_finds_it_and_the_first_object_comes_back
      loop = new_loop
      reader, writer = new_pipe
      key = +"key"
      loop.watch_io(key, reader, false, false)
      writer.write("x")
      assert_same key, loop.next_event
      loop.unwatch("key")
      loop.signal
      assert_nil loop.next_event
    end

    def test_a_key_that_was_changed_while_it_was_watched_does_no_harm
      loop = new_loop
      reader, writer = new_pipe
      key = [1]
      loop.watch_io(key, reader, false, true)
      key << 2
      writer.write("x")
      assert_same key, loop.next_event
      reader.read(1)
      loop.watch_io([1], reader, false, true)
      writer.write("x")
      assert_equal [1], loop.next_event
    end

    # Does something the nth time that its hash is asked for.
    class BusyKey
      def meanwhile(nth, &block)
        @left = nth
        @block = block
        self
      end

      def hash
        @block.call if @block && (@left -= 1).zero?
        1
      end

      def eql?(other)
        equal?(other)
      end
    end

    def test_an_event_that_is_taken_while_its_watch_is_released_does_no_harm
      loop = new_loop
      keys = Array.new(2) { BusyKey.new }
      keys.each do |key|
        reader, writer = new_pipe
        writer.write("x")
        loop.watch_io(key, reader, false, false)
      end
      other = (keys - [loop.next_event]).first # its event is queued
      loop.unwatch(other.meanwhile(2) { loop.next_event })
      loop.unwatch((keys - [other]).first)
      got = []
      %i[x y].each { |key| loop.watch_timer(key, 0, 0) }
      in_thread { got << loop.next_event until (%i[x y] - got).empty? }
      assert_equal %i[x y], (got & %i[x y]).sort
    end

    def test_a_key_whose_methods_close_the_loop_is_not_watched
      skip "only the native engine asks again" if backend == "select"

      [1, 2].product(%i[watch_timer watch_io]) do |nth, method|
        loop = new_loop
        loop.watch_timer("another", 100, 0) # no key is asked in an empty table
        key = BusyKey.new.meanwhile(nth) { loop.close }
        assert_raises(RuntimeError) { method == :watch_io ? loop.watch_io(key, new_pipe[0], false, true) : loop.watch_timer(key, 1, 0) }
        assert loop.closed?
      end
    end

    def test_the_key_may_be_watched_again_in_its_handler
      loop = new_loop
      reader, writer = new_pipe
      writer.write("abcd")
      loop.watch_io(:io, reader, false, true)
      read = +""
      loop.each do |key|
        assert_equal :io, key
        read << reader.read_nonblock(1)
        read.size == 4 ? loop.stop : loop.watch_io(:io, reader, false, true)
      end
      assert_equal "abcd", read
    end

    def test_what_is_left_unread_is_reported_again_when_it_is_watched_again
      loop = new_loop
      reader, writer = new_pipe
      loop.watch_io(:io, reader, false, true)
      writer.write("x")
      3.times do
        assert_equal :io, in_thread { loop.next_event }
        loop.watch_io(:io, reader, false, true)
      end
      assert_equal "x", reader.read_nonblock(1)
      loop.signal
      assert_nil loop.next_event
    end

    def test_a_watch_may_turn_from_reading_to_writing_and_back
      loop = new_loop
      one, other = UNIXSocket.pair
      @ios.push(one, other)
      3.times do
        loop.watch_io(:io, one, false, true)
        other.write("x")
        assert_equal :io, loop.next_event
        loop.watch_io(:io, one, true, true)
        assert_equal :io, loop.next_event
        one.read_nonblock(1)
      end
    end

    def test_unwatch_ends_a_watch_but_not_an_event_that_is_queued
      loop = new_loop
      reader, writer = new_pipe
      loop.watch_io(:io, reader, false, false)
      loop.emit(:first)
      loop.unwatch(:io)
      writer.write("x")
      assert_equal :first, loop.next_event
      loop.signal
      assert_nil loop.next_event
      loop.watch_io(:io, reader, false, false)
      keys = []
      loop.watch_timer(:timer, 0, 0)
      loop.each do |key|
        keys << key
        loop.unwatch(:io)
        loop.stop if keys.size == 2
      end
      assert_equal %i[io timer], keys.sort
    end

    def test_watch_fd_takes_a_number
      loop = new_loop
      reader, writer = new_pipe
      loop.watch_fd(:fd, reader.fileno, false, true)
      writer.write("x")
      assert_equal :fd, loop.next_event
      loop.watch_fd(:w, writer.fileno, write: true, oneshot: true)
      assert_equal :w, loop.next_event
    end

    def test_a_number_that_is_not_open_is_an_error_that_names_the_key
      loop = new_loop
      reader, writer = IO.pipe
      fd = reader.fileno
      [reader, writer].each(&:close)
      error = assert_raises(Errno::EBADF) { loop.watch_fd([:my, :key], fd, false, true) }
      assert_match(/watch \[:my, :key\]/, error.message)
      refute loop.watching?([:my, :key])
    end

    def test_a_closed_io_is_an_error_that_names_the_key
      loop = new_loop
      reader, = new_pipe
      reader.close
      error = assert_raises(IOError) { loop.watch_io("some key", reader, false, true) }
      assert_match(/watch "some key": its io is closed/, error.message)
    end

    def test_an_io_that_is_closed_while_it_is_watched_is_an_error_that_names_the_key
      loop = new_loop
      reader, writer = new_pipe
      loop.watch_io(:gone, reader, false, false)
      loop.watch_timer(:tick, 0.02, 0.02)
      ticks = 0
      error = assert_raises(IOError) do
        in_thread do
          loop.each do
            reader.close if (ticks += 1) == 2
          end
        end
      end
      assert_match(/watch :gone: its io was closed/, error.message)
      refute loop.watching?(:gone)
      assert_raises(Errno::EPIPE) { writer.write("x") } # nothing holds the reader open
      assert_equal :tick, loop.next_event # it goes on
    end

    def test_an_io_that_is_closed_before_anything_has_happened
      loop = new_loop
      reader, = new_pipe
      loop.watch_io(:gone, reader, false, false)
      reader.close
      error = assert_raises(IOError) { in_thread { loop.next_event } }
      assert_match(/watch :gone: its io was closed/, error.message)
    end

    def test_a_number_that_was_given_out_again_is_another_one
      loop = new_loop
      old, = new_pipe
      loop.watch_io(:old, old, false, false)
      reader, writer = new_pipe_in_place_of(old)
      loop.watch_io(:new, reader, false, true)
      writer.write("x")
      keys = []
      error = assert_raises(IOError) { in_thread { loop.each { |key| keys << key } } }
      assert_match(/watch :old: /, error.message)
      keys << in_thread { loop.next_event } if keys.empty?
      assert_equal [:new], keys
    end

    def test_a_number_that_was_given_out_again_in_a_handler_is_another_one
      loop = new_loop
      reader, writer = new_pipe
      loop.watch_io(reader, reader, false, true)
      writer.write("x")
      10.times do
        assert_same reader, in_thread { loop.next_event }
        reader, writer = new_pipe_in_place_of(reader)
        loop.watch_io(reader, reader, false, true)
        writer.write("x")
      end
    end

    def test_an_io_that_was_reopened_in_its_handler_is_watched
      loop = new_loop
      reader, writer = new_pipe
      loop.watch_io(:io, reader, false, true)
      writer.write("x")
      assert_equal :io, loop.next_event
      fresh, fresh_writer = new_pipe
      reader.reopen(fresh)
      loop.watch_io(:io, reader, false, true)
      fresh_writer.write("y")
      assert_equal :io, in_thread { loop.next_event }
      assert_equal "y", reader.read_nonblock(1)
    end

    def test_a_duplicate_of_an_io_that_was_closed_does_not_keep_the_loop_busy
      loop = new_loop
      reader, writer = new_pipe
      other, = new_pipe
      loop.watch_io(:io, reader, false, true)
      loop.watch_io(:other, other, false, false)
      writer.write("x")
      assert_equal :io, loop.next_event
      @ios << reader.dup # as a child process has it
      reader.close
      before = loop.stats[:turns]
      loop.watch_timer(:timer, 0.4, 0)
      assert_equal :timer, in_thread { loop.next_event }
      assert_operator loop.stats[:turns] - before, :<, 100
      reader, writer = new_pipe
      loop.watch_io(:new, reader, false, true)
      writer.write("x")
      assert_equal :new, in_thread { loop.next_event }
    end

    def test_duplicates_of_several_ios_that_were_closed_do_not_keep_the_loop_busy
      loop = new_loop
      pipes = Array.new(3) { new_pipe }
      pipes.each_with_index { |(reader, _), index| loop.watch_io(index, reader, false, true) }
      pipes.each { |_, writer| writer.write("x") }
      assert_equal [0, 1, 2], Array.new(3) { loop.next_event }.sort
      pipes.each do |reader, _|
        @ios << reader.dup # as a child process has it
        reader.close
      end
      before = loop.stats[:turns]
      loop.watch_timer(:timer, 0.4, 0)
      assert_equal :timer, in_thread { loop.next_event }
      assert_operator loop.stats[:turns] - before, :<, 100
    end

    def test_a_file_is_always_ready
      loop = new_loop
      File.open(__FILE__) do |file|
        loop.watch_io(:file, file, false, false)
        assert_equal %i[file file file], events(loop, 3)
        loop.unwatch(:file)
        loop.watch_io(:file, file, false, true)
        assert_equal :file, loop.next_event
        refute loop.watching?(:file)
      end
    end

    def test_the_end_of_file_is_an_event
      loop = new_loop
      reader, writer = new_pipe
      loop.watch_io(:io, reader, false, true)
      writer.close
      assert_equal :io, loop.next_event
      assert_nil reader.read_nonblock(1, exception: false)
    end

    def test_a_key_may_unwatch_itself_when_it_is_asked_for_its_text
      loop = new_loop
      kind = Class.new { define_method(:inspect) { loop.unwatch(self).then { "text" } } }
      20.times do
        reader, writer = new_pipe
        loop.watch_io(kind.new, reader)
        writer.close
        reader.close
        assert_raises(IOError) { loop.next_event }
      end
      assert_equal 0, loop.stats[:descriptors]
      50.times { |number| new_pipe.then { |reader, writer| loop.watch_io([number], reader).then { writer.write "x" } } }
      assert_equal 50, Array.new(50) { loop.next_event.tap { |key| loop.unwatch(key) } }.uniq.size
    end

    def test_a_half_close_is_not_room_to_write
      near, far = UNIXSocket.pair
      @ios.push(near, far)
      loop = new_loop
      nil until near.write_nonblock("x" * 65_536, exception: false) == :wait_writable
      loop.watch_io(:room, near, write: true, read: false)
      far.close_write
      loop.watch_timer(:asleep, 0.01, 0)
      assert_equal :asleep, in_thread { loop.next_event }
      before = loop.stats[:turns]
      loop.watch_timer(:asleep, 0.02, 0)
      assert_equal :asleep, in_thread { loop.next_event }
      assert_operator loop.stats[:turns] - before, :<, 30
      far.read_nonblock(65_536) while far.wait_readable(0)
      3.times { assert_equal :room, in_thread { loop.next_event } }
    end

    def test_what_has_to_io_is_an_io
      loop = new_loop
      reader, writer = new_pipe
      wrapper = Struct.new(:to_io).new(reader)
      loop.watch_io(:io, wrapper, false, true)
      writer.write("x")
      assert_equal :io, loop.next_event
    end

    def test_many_are_ready_at_once
      loop = new_loop
      pairs = Array.new(300) { new_pipe }
      pairs.each { |reader, _| loop.watch_io(reader, reader, false, true) }
      pairs.each { |_, writer| writer.write("x") }
      assert_equal pairs.map(&:first).sort_by(&:fileno), events(loop, 300).sort_by(&:fileno)
    end

    private

    # Closes the IO and opens a pipe whose reader has its number. Lower ones may be free: a backend
    # that another thread waits in may open its descriptors again. On JRuby any number will do, for
    # the machine opens descriptors of its own.
    def new_pipe_in_place_of(old)
      pipe, writer = new_pipe
      number = old.fileno
      old.close
      return pipe, writer if RUBY_ENGINE == "jruby"

      reader = IO.for_fd(pipe.fcntl(Fcntl::F_DUPFD, number))
      @ios << reader
      assert_equal number, reader.fileno
      pipe.close
      [reader, writer]
    end
  end
end
