# frozen_string_literal: true

# Calls that always succeed at once let others run all the same.
require "socket"

module SchedulerContract
  # Floods.
  module Pacing
    def test_a_reader_that_always_finds_something_lets_others_run
      with_open(*UNIXSocket.pair) do |near, far|
        in_fiber do |scheduler|
          ticked = false
          scheduler.spawn { sleep(0.002).then { ticked = true } }
          until ticked
            far.write "x"
            assert_equal "x", near.readpartial(10)
          end
        end
      end
    end

    def test_a_server_whose_backlog_is_never_empty_lets_others_run
      with_open(TCPServer.new("127.0.0.1", 0)) do |server|
        clients = Array.new(50) { TCPSocket.new("127.0.0.1", server.addr[1]) }
        with_open(*clients) { assert_others_run_beside(50) { server.accept.close } }
      end
    end

    def test_a_receiver_of_datagrams_that_never_cease_lets_others_run
      with_open(UDPSocket.new, UDPSocket.new) do |near, far|
        near.bind("127.0.0.1", 0)
        100.times { far.send("x", 0, "127.0.0.1", near.addr[1]) }
        assert_others_run_beside(50) { assert_equal "x", near.recvfrom(10).first }
        assert_others_run_beside(50) { assert_equal "x", near.recv(10) }
      end
    end

    def test_a_read_that_must_not_wait_lets_nothing_run
      with_open(*UNIXSocket.pair) do |near, far|
        in_fiber do |scheduler|
          ticked = false
          scheduler.spawn { sleep(0.001).then { ticked = true } }
          20.times do
            far.write_nonblock "x"
            busy(0.001)
            assert_equal "x", near.read_nonblock(10)
          end
          refute ticked
        end
      end
    end

    private

    # The block is called as often, and each call is followed by work: the clock ticks many times
    # meanwhile.
    def assert_others_run_beside(count)
      in_fiber do |scheduler|
        ticks = 0
        ticker = scheduler.spawn { loop { sleep(0.0001).then { ticks += 1 } } }
        count.times { yield.then { busy(0.001) } }
        scheduler.fiber_interrupt(ticker, Gyre::Stop.new("over"))
        assert_predicate ticks, :positive?
      end
    end

    def busy(seconds)
      until_s = now + seconds
      nil while now < until_s
    end
  end
end
