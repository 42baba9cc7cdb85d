# frozen_string_literal: true

# Connections of which one side has ended, or both.
require "socket"
require "io/wait"

module SchedulerContract
  # Half-closed sockets, resets, and what waits on them.
  module Ends
    # More than a loop takes that sleeps, fewer than one that spins takes in a millisecond.
    TURNS_LIMIT = 30

    def test_a_writer_sleeps_while_a_half_closed_peer_does_not_read
      each_connection do |near, far|
        in_fiber do |scheduler|
          scheduler.spawn { sleep(0.001).then { far.close_write } }
          assert_equal "", near.read # waits, so that the kernel is asked for the end
          written = nil
          scheduler.spawn { written = near.write("x" * 8_000_000) }
          assert_quiet(scheduler)
          assert_nil written
          rest = 8_000_000
          rest -= far.readpartial(1_000_000).bytesize while rest.positive?
          eventually { scheduler.yield.then { written } }
          assert_equal 8_000_000, written
        end
      end
    end

    def test_a_wait_for_room_outlasts_the_half_close
      each_connection do |near, far|
        in_fiber do |scheduler|
          fill(near)
          ready = nil
          scheduler.spawn { ready = scheduler.io_wait(near, IO::WRITABLE, nil) }
          sleep 0.001 # by now the kernel knows of it
          far.close_write
          assert_quiet(scheduler)
          assert_nil ready
          far.read_nonblock(1_000_000) while far.wait_readable(0.01)
          eventually { scheduler.yield.then { ready } }
          assert_equal IO::WRITABLE, ready
        end
      end
    end

    def test_a_reader_gets_the_end_at_once_while_a_writer_waits
      each_connection do |near, far|
        in_fiber do |scheduler|
          fill(near)
          wrote = false
          scheduler.spawn { near.wait_writable.then { wrote = true } }
          scheduler.spawn { sleep(0.001).then { far.close_write } }
          assert_equal "", near.read
          assert_nil near.read(1)
          assert_equal IO::READABLE, scheduler.io_wait(near, IO::READABLE, 0)
          refute wrote
          far.close
          eventually { scheduler.yield.then { wrote } }
        end
      end
    end

    def test_a_reset_wakes_the_reader_and_the_writer
      with_open(*tcp_pair) do |near, far|
        in_fiber do |scheduler|
          fill(near)
          woken = []
          scheduler.spawn { near.wait_writable.then { woken << :writer } }
          scheduler.spawn { near.wait_readable.then { woken << :reader } }
          sleep 0.001 # by now the kernel knows of both
          far.setsockopt(:SOCKET, :LINGER, [1, 0].pack("ii"))
          far.close
          eventually { scheduler.yield.then { woken.size == 2 } }
          assert_equal %i[reader writer], woken.sort
          assert_raises(SystemCallError) { 2.times { near.write_nonblock("x") } }
        end
      end
    end

    def test_a_reader_of_the_rest_and_of_the_end_waits_for_nothing
      each_connection do |near, far|
        in_fiber do
          far.write "abc"
          far.close_write
          near.wait_readable
          assert_equal %w[a b c], Array.new(3) { near.readpartial(1) }
          assert_raises(EOFError) { near.readpartial(1) }
        end
      end
    end

    private

    def each_connection
      [tcp_pair, UNIXSocket.pair].each { |pair| with_open(*pair) { |near, far| yield near, far } }
    end

    def tcp_pair
      with_open(TCPServer.new("127.0.0.1", 0)) { |server| [TCPSocket.new("127.0.0.1", server.addr[1]), server.accept] }
    end

    # The kernel grows a socket's buffer after a while, so that there is room again.
    def fill(socket)
      loop { break if socket.write_nonblock("y" * 65_536, exception: false) == :wait_writable && !socket.wait_writable(0.01) }
    end

    # Whether the loop sleeps.
    def assert_quiet(scheduler)
      sleep 0.01
      before = scheduler.stats[:turns]
      sleep 0.02
      assert_operator scheduler.stats[:turns] - before, :<, TURNS_LIMIT
    end
  end
end
