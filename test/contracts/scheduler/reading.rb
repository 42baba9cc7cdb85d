# frozen_string_literal: true

# What an engine keeps of a descriptor that it has drained, and what that does not mean.
require "fcntl"
require "io/nonblock"
require "socket"

module SchedulerContract
  # Reads one after another from the same descriptor.
  module Reading
    def test_what_came_after_a_short_read_is_there_for_read_nonblock
      [IO.pipe, UNIXSocket.pair].each do |reader, writer|
        with_open(reader, writer) do
          in_fiber do |scheduler|
            scheduler.spawn { 2.times { writer.write("one").then { sleep(0.001) } } }
            2.times { assert_equal "one", reader.readpartial(100) }
            assert_equal :wait_readable, reader.read_nonblock(100, exception: false)
            writer.write "two"
            assert_equal "two", reader.read_nonblock(100)
          end
        end
      end
    end

    def test_an_end_that_comes_with_the_last_bytes_is_not_waited_for
      [IO.pipe, UNIXSocket.pair].each do |reader, writer|
        with_open(reader, writer) do
          in_fiber do |scheduler|
            scheduler.spawn { sleep(0.001).then { writer.write("first") } }
            assert_equal "first", reader.readpartial(100)
            scheduler.spawn { sleep(0.001).then { writer.write("last") }.then { writer.close } }
            assert_equal "last", reader.readpartial(100)
            assert_raises(EOFError) { reader.readpartial(100) }
          end
        end
      end
    end

    def test_bytes_and_end_that_came_without_a_reader_are_found
      with_open(*UNIXSocket.pair) do |reader, writer|
        in_fiber do |scheduler|
          scheduler.spawn { sleep(0.001).then { writer.write("first") } }
          assert_equal "first", reader.readpartial(100)
          writer.write "second"
          writer.close
          3.times { sleep 0 }
          assert_equal "second", reader.readpartial(100)
          assert_raises(EOFError) { reader.readpartial(100) }
        end
      end
    end

    def test_a_message_that_is_there_is_not_waited_for
      kinds = [Socket::SOCK_DGRAM]
      kinds << Socket::SOCK_SEQPACKET if RUBY_PLATFORM.include?("linux")
      kinds.each do |kind|
        with_open(*UNIXSocket.pair(kind)) do |reader, writer|
          in_fiber do |scheduler|
            scheduler.spawn { sleep(0.001).then { 3.times { |number| writer.write(number.to_s) } } }
            assert_equal "0", reader.readpartial(100)
            others = 0
            scheduler.spawn { 20.times { sleep(0).then { others += 1 } } }
            assert_equal [["1", 0], ["2", 0]], Array.new(2) { [reader.readpartial(100), others] }
          end
        end
      end
    end

    def test_sysread_waits
      with_pipe do |reader, writer|
        in_fiber do |scheduler|
          scheduler.spawn { sleep(0.001).then { writer.write("x") } }
          assert_equal "x", reader.sysread(10)
        end
      end
    end

    def test_a_new_descriptor_of_a_drained_ones_number_is_read_at_once_even_by_a_busy_loop
      in_fiber do |scheduler|
        busy = true
        scheduler.spawn { sleep 0 while busy }
        20.times do
          with_open(*UNIXSocket.pair) do |reader, writer|
            scheduler.spawn { sleep(0.0005).then { writer.write("x") } }
            assert_equal "x", reader.readpartial(100)
          end
        end
        busy = false
      end
    end

    # Believed for some milliseconds, the earlier registration would hold up each first answer.
    def test_a_close_ends_the_belief_in_a_registration
      skip "only epoll shows what is registered" unless backend == "epoll" && Dir["/proc/self/fdinfo/*"].any?
      in_fiber do |scheduler|
        numbers = Array.new(3) do
          near, writer = UNIXSocket.pair
          reader = UNIXSocket.for_fd(near.fcntl(Fcntl::F_DUPFD, 500)) # a number that no collection frees below it
          with_open(near, reader, writer) do
            waiting = scheduler.spawn { reader.readpartial(100) }
            sleep 0
            assert_operator registrations(reader), :>, 0
            writer.write("x")
            sleep 0 while waiting.alive?
            reader.fileno
          end
        end
        assert_equal 1, numbers.uniq.size
      end
    end

    def test_a_pipe_whose_mode_is_changed_meanwhile_does_not_stop_others
      with_pipe do |reader, writer|
        in_fiber do |scheduler|
          scheduler.spawn { sleep(0.001).then { writer.write("x") } }
          assert_equal "x", reader.readpartial(1)
          reader.nonblock = false
          scheduler.spawn { sleep(0.001).then { writer.write("y") } }
          assert_equal "y", reader.readpartial(1)
        end
      end
    end

    def test_a_reader_whose_io_is_closed_and_its_number_given_out_gets_an_error
      errors = []
      in_fiber do |scheduler|
        old, old_writer = IO.pipe
        scheduler.spawn { old_writer.write("x") }
        assert_equal "x", old.readpartial(10)
        scheduler.spawn { old.readpartial(10) rescue errors << $!.class }
        old.close
        with_pipe do |reader, writer|
          writer.write "new"
          assert_equal "new", reader.readpartial(10)
        end
        old_writer.close
        sleep 0.001 while errors.empty?
      end
      assert_includes [IOError, Errno::EBADF], errors.first
    end
  end
end
