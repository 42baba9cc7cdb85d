# frozen_string_literal: true

# Gyre::Transport#<<: what a turn of the scheduler gives leaves at its end, in one call. On each
# native backend.
require "test_helper"
require "objspace"
require "support/engines"
require "gyre"
require "gyre/net" unless GyreTest::Engines::NATIVE.empty?

GyreTest::Engines.test_case("DeferredSendTest", backends: GyreTest::Engines::NATIVE) do
  # Each send is a packet of its own at the peer.
  def pair(type = :SEQPACKET)
    near, far = UNIXSocket.pair(type)
    transport = Gyre::Transport.new(near, "the peer")
    yield transport, far
  ensure
    transport&.abandon
    far&.close
  end

  def sent(socket)
    socket.recv_nonblock(100, exception: false)
  end

  def test_strings_of_one_turn_leave_in_one_call
    Gyre.run do |task|
      pair do |transport, far|
        assert_same transport, transport << "a" << :b
        task.async { transport << "c" }
        assert_equal :wait_readable, sent(far)
        sleep 0.001 # the turn ends
        assert_equal "abc", sent(far)
        transport << "d"
        sleep 0.001
        assert_equal "d", sent(far)
      end
    end
  end

  def test_an_idle_transport_keeps_no_memory_for_sending
    Gyre.run do
      pair do |transport, _|
        before = ObjectSpace.memsize_of(transport)
        transport << "a"
        assert_operator ObjectSpace.memsize_of(transport), :>, before
        sleep 0.001
        assert_equal before, ObjectSpace.memsize_of(transport)
      end
    end
  end

  def test_a_write_and_a_flush_take_it_along
    Gyre.run do
      pair do |transport, far|
        transport << "a"
        transport.write("b")
        assert_equal "ab", sent(far)
        transport << "c"
        assert_same transport, transport.flush
        assert_equal "c", sent(far)
        sleep 0.001
        assert_equal :wait_readable, sent(far)
      end
    end
  end

  def test_a_close_sends_it
    Gyre.run do
      pair do |transport, far|
        transport << "last"
        transport.close
        assert_equal "last", sent(far)
      end
    end
  end

  def test_the_end_of_the_run_sends_it
    pair do |transport, far|
      Gyre.run { transport << "x" }
      assert_equal "x", sent(far)
    end
  end

  def test_without_a_scheduler_it_is_sent_at_once
    pair do |transport, far|
      transport << "x"
      assert_equal "x", sent(far)
    end
  end

  def test_bytes_beyond_the_sockets_room_leave_later
    Gyre.run do
      pair(:STREAM) do |transport, far|
        bytes = Random.new(1).bytes(60_000)
        transport.to_io.setsockopt(:SOCKET, :SNDBUF, 4096)
        transport << bytes
        sleep 0.001
        assert_operator transport.unsent_bytes, :>, 0
        assert_equal bytes, far.read(60_000)
        assert_equal 0, transport.unsent_bytes
        transport << "again"
        assert_equal "again", far.readpartial(100)
      end
    end
  end

  def test_a_writer_waits_for_a_peer_that_takes_nothing
    Gyre.run do |task|
      pair(:STREAM) do |transport, far|
        writing = task.async { 100.times { transport << ("x" * 10_000) } }
        task.yield
        refute_predicate writing, :completed?
        assert_operator transport.unsent_bytes, :<, 80_000
        assert_equal 1_000_000, far.read(1_000_000).bytesize
        writing.wait
      end
    end
  end

  def test_an_error_is_raised_by_the_next_call
    Gyre.run do
      pair do |transport, far|
        far.close
        transport << "x"
        sleep 0.001
        error = assert_raises(Errno::EPIPE) { transport << "y" }
        assert_includes error.message, "the peer"
        assert_raises(Errno::EPIPE) { transport.flush }
        assert_raises(Errno::EPIPE) { transport.write("z") }
      end
    end
  end

  def test_a_number_that_another_socket_has_by_now_gets_nothing
    Gyre.run do
      pair do |transport, _far|
        transport << "late"
        transport.to_io.close
        others = UNIXSocket.pair(:SEQPACKET) # one of them has the number now
        sleep 0.001
        assert_equal %i[wait_readable wait_readable], others.map { |socket| sent(socket) }
        others.each(&:close)
      end
    end
  end

  def test_a_closed_transport_sends_nothing_more
    Gyre.run do
      pair do |transport, far|
        transport << "x"
        transport.abandon
        assert_raises(IOError) { transport << "y" }
        sleep 0.001
        assert_equal "", far.recv(100).to_s
      end
    end
  end

  def test_an_unreferenced_transport_sends_its_queue
    near, far = UNIXSocket.pair(:SEQPACKET)
    Gyre.run do
      [1].each { Gyre::Transport.new(near, "the peer") << "x" }
      GC.start
      sleep 0.001
      assert_equal "x", sent(far)
    end
  ensure
    near.close
    far.close
  end

  # Many, in fibers of their own: what a stack refers to is not moved.
  def test_the_collector_may_move_a_transport_between_two_turns
    pairs = Array.new(50) { UNIXSocket.pair(:SEQPACKET) }
    transports = []
    Gyre.run do |task|
      pairs.each { |near, _| task.async { transports << (Gyre::Transport.new(near, "the peer") << "a") } }
      sleep 0.001
      move_objects
      task.async { transports.each { |transport| transport << "b" } }
      GC.start
      sleep 0.001
      pairs.each { |_, far| assert_equal %w[a b], [sent(far), sent(far)] }
    end
  ensure
    pairs.flatten.each(&:close)
  end

  # Only the scheduler of the thread that forks learns of it.
  def test_a_child_that_another_thread_forks_leaves_it_to_the_parent
    pair(:STREAM) do |transport, far|
      transport.to_io.setsockopt(:SOCKET, :SNDBUF, 1)
      waits = Thread::Queue.new
      go_on = Thread::Queue.new
      sender = Thread.new do
        Gyre.run do
          transport << ("x" * 60_000)
          sleep 0.001
          waits << transport.unsent_bytes
          go_on.pop
        end
      end
      assert_operator waits.pop, :>, 0
      pid = fork do
        GC.start(full_mark: true, immediate_sweep: true)
        exit!(1) unless transport.unsent_bytes.zero?
        transport.abandon
        GC.start(full_mark: true, immediate_sweep: true)
        exit!(0)
      end
      assert_equal 0, Process.wait2(pid)[1].exitstatus
      reader = Thread.new { far.read }
      go_on << true
      sender.join
      transport.close
      assert_equal 60_000, reader.value.bytesize
    end
  end

  def test_a_forked_child_leaves_it_to_the_parent
    Gyre.run do
      pair do |transport, far|
        transport << "once"
        pid = fork do
          transport.flush
          exit!(transport.unsent_bytes)
        end
        assert_equal 0, Process.wait2(pid)[1].exitstatus
        sleep 0.001
        assert_equal ["once", :wait_readable], [sent(far), sent(far)]
      end
    end
  end
end
