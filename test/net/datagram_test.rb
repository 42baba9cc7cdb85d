# frozen_string_literal: true

# Gyre.datagram: packets over UDP and Unix sockets, in tasks and in plain threads, on each native
# backend.
require "test_helper"
require "support/engines"
require "tmpdir"
require "gyre"
require "gyre/net" unless GyreTest::Engines::NATIVE.empty?

GyreTest::Engines.test_case("DatagramTest", backends: GyreTest::Engines::NATIVE) do
  # Each end may stand in a task or in a thread without a scheduler.
  def in_tasks(&block)
    Gyre.run(&block)
  end

  def echo(address = "udp://127.0.0.1:0", **options)
    Gyre.datagram(address, **options) do |socket|
      server = Gyre::Task.current.async { socket.each { |packet| packet.reply(packet.bytes.upcase) } }
      yield socket, server
    end
  end

  def client(server, **options, &block)
    Gyre.datagram(connect: "udp://127.0.0.1:#{server.port}", **options, &block)
  end

  def test_a_packet_is_answered_to_its_sender
    in_tasks do
      echo do |server|
        client(server) do |socket|
          socket.send("hello")
          packet = socket.receive
          assert_equal ["HELLO", Encoding::BINARY, false], [packet.bytes, packet.bytes.encoding, packet.truncated?]
          assert_equal ["127.0.0.1", server.port, nil], [packet.peer.host, packet.peer.port, packet.peer.path]
          assert_equal "udp://127.0.0.1:#{server.port}", packet.peer.to_s
        end
      end
    end
  end

  def test_the_same_in_threads_without_a_scheduler
    server = Gyre.datagram("udp://127.0.0.1:0")
    thread = Thread.new { server.each { |packet| packet.reply(packet.bytes.upcase) } }
    client(server) do |socket|
      10.times do |number|
        socket.send("packet #{number}")
        assert_equal "PACKET #{number}", socket.receive.bytes
      end
    end
    server.close
    assert_same server, thread.value
  end

  def test_packets_of_every_size_keep_their_borders
    in_tasks do
      echo do |server|
        client(server) do |socket|
          [0, 1, 1472, 2048, 2049, 65_507].each do |size|
            bytes = Random.new(size).bytes(size)
            socket.send(bytes)
            assert_equal bytes.upcase, socket.receive.bytes, "#{size} bytes"
          end
          assert_raises(Errno::EMSGSIZE) { socket.send("x" * 65_508) }
        end
      end
    end
  end

  def test_many_packets_at_once_come_in_their_order
    in_tasks do
      echo do |server|
        client(server) do |socket|
          100.times { |number| socket.send("n#{number}") }
          assert_equal Array.new(100) { |number| "N#{number}" }, Array.new(100) { socket.receive.bytes }
        end
        assert_equal 0, server.refused_replies
      end
    end
  end

  def test_a_packet_above_the_limit_is_marked_as_truncated
    in_tasks do
      Gyre.datagram("udp://127.0.0.1:0", bytes_limit: 4) do |server|
        client(server) { |socket| %w[abcd abcde].each { |bytes| socket.send(bytes) } }
        assert_equal [["abcd", false], ["abcd", true]], Array.new(2) { server.receive }.map { |packet| [packet.bytes, packet.truncated?] }
      end
    end
    [0, 65_537].each { |limit| assert_raises(ArgumentError) { Gyre.datagram("udp://127.0.0.1:0", bytes_limit: limit) } }
  end

  def test_replies_of_one_turn_leave_together_and_before_later_packets
    in_tasks do
      Gyre.datagram("udp://127.0.0.1:0") do |server|
        client(server) do |socket|
          3.times { |number| socket.send(number.to_s) }
          packets = Array.new(3) { server.receive }
          packets.each { |packet| packet.reply("reply #{packet.bytes}") }
          assert_nil socket.to_io.recv_nonblock(100, exception: false).then { |bytes| bytes unless bytes == :wait_readable }
          server.send("sent", to: packets.last)
          assert_equal ["reply 0", "reply 1", "reply 2", "sent"], Array.new(4) { socket.receive.bytes }
          packets.first.reply("at the end of the turn")
          assert_equal "at the end of the turn", socket.receive.bytes
        end
      end
    end
  end

  def test_pending_replies_leave_before_the_socket_closes
    with_reply_pending("!") do |server, socket|
      server.close
      assert_equal "!", socket.receive.bytes
    end
  end

  def test_a_reply_to_a_number_that_another_socket_has_by_now_is_lost
    with_reply_pending("late") do |server, socket|
      server.to_io.close
      other = Gyre.datagram("udp://127.0.0.1:0") # has the number now
      sleep(0.001) # the turn ends
      assert_nil socket.receive(timeout: 0)
      assert_equal 1, server.refused_replies
      other.close
    end
  end

  # The block runs in the turn of the reply, and closes the server.
  def with_reply_pending(reply)
    in_tasks do
      server = Gyre.datagram("udp://127.0.0.1:0")
      client(server) do |socket|
        socket.send("?")
        server.receive.reply(reply)
        yield server, socket
      end
    end
  end

  def test_a_receive_ends_after_its_time
    in_tasks do |task|
      Gyre.datagram("udp://127.0.0.1:0") do |socket|
        others = 0
        ticking = task.async { 3.times { sleep(0.001).then { others += 1 } } }
        assert_nil socket.receive(timeout: 0.05)
        ticking.wait
        assert_equal 3, others
        assert_nil socket.receive(timeout: 0)
        assert_raises(ArgumentError) { socket.receive(timeout: -1) }
      end
    end
    Gyre.datagram("udp://127.0.0.1:0") { |socket| assert_nil socket.receive(timeout: 0.01) }
  end

  def test_several_readers_get_each_packet_once
    in_tasks do |task|
      Gyre.datagram("udp://127.0.0.1:0") do |server|
        got = []
        readers = Array.new(3) { task.async { 20.times { got << server.receive.bytes.tap { task.yield } } } }
        client(server) { |socket| 60.times { |number| socket.send(number.to_s) } }
        readers.each(&:wait)
        assert_equal Array.new(60, &:to_s), got.sort_by(&:to_i)
      end
    end
  end

  # What one reader has received at once would lie there while it is busy.
  def test_a_reader_that_is_busy_keeps_no_packet_from_another_that_waits
    in_tasks do |task|
      Gyre.datagram("udp://127.0.0.1:0") do |server|
        waiting = task.async { server.receive.bytes }
        task.yield
        client(server) { |socket| %w[a b].each { |bytes| socket.send(bytes) } }
        assert_equal "a", server.receive.bytes
        assert_equal "b", task.with_timeout(10) { waiting.wait }
      end
    end
  end

  def test_closing_it_in_another_fiber_ends_each_and_fails_a_receive
    in_tasks do |task|
      server = Gyre.datagram("udp://127.0.0.1:0")
      serving = task.async { server.each { flunk } }
      receiving = task.async { assert_raises(IOError) { server.receive } }
      task.yield
      server.close
      assert_same server, serving.wait
      receiving.wait
      assert_predicate server, :closed?
      assert_raises(IOError) { server.send("x", to: "udp://127.0.0.1:1") }
      assert_nil server.close
    end
  end

  def test_a_stopped_task_leaves_the_socket_usable
    in_tasks do |task|
      Gyre.datagram("udp://127.0.0.1:0") do |server|
        stopped = task.async { server.receive }
        task.yield
        stopped.stop
        client(server) { |socket| 3.times { |number| socket.send(number.to_s) } }
        assert_equal %w[0 1 2], Array.new(3) { server.receive.bytes }
      end
    end
  end

  def test_nothing_at_the_peer_is_an_error_of_a_connected_socket
    free = free_port
    in_tasks do
      Gyre.datagram(connect: "udp://127.0.0.1:#{free}") do |socket|
        socket.send("x")
        error = assert_raises(Errno::ECONNREFUSED) { socket.receive(timeout: 10) }
        assert_includes error.message, "udp://127.0.0.1:#{free}"
        assert_nil socket.receive(timeout: 0)
      end
    end
  end

  # The kernel reports the first packet's error to the second.
  def test_a_reply_goes_out_although_an_earlier_packet_was_refused
    free = free_port
    in_tasks do
      Gyre.datagram("udp://127.0.0.1:0") do |server|
        client(server) do |socket|
          socket.send("?")
          packet = server.receive
          server.connect("udp://127.0.0.1:#{free}")
          server.send("refused")
          packet.reply("!")
          assert_equal ["!", 0], [socket.receive(timeout: 10).bytes, server.refused_replies]
        end
      end
    end
  end

  def test_ipv6_and_every_address_of_the_machine
    skip "this machine has no IPv6" unless ipv6?
    in_tasks do
      echo("udp://[::1]:0") do |server|
        Gyre.datagram(connect: "udp://[::1]:#{server.port}") do |socket|
          socket.send("six")
          packet = socket.receive
          assert_equal ["SIX", "udp://[::1]:#{server.port}"], [packet.bytes, packet.peer.to_s]
        end
      end
      echo("udp://*:0") do |server|
        %w[127.0.0.1 [::1]].each do |host|
          Gyre.datagram(connect: "udp://#{host}:#{server.port}") do |socket|
            socket.send("x")
            assert_equal "X", socket.receive.bytes, host
          end
        end
      end
    end
  end

  def test_a_socket_for_both_families_shows_and_reaches_ipv4_addresses
    skip "this machine has no IPv6" unless ipv6?
    in_tasks do
      Gyre.datagram("udp://*:0") do |both|
        Gyre.datagram("udp://127.0.0.1:0") do |four|
          both.send("x", to: "udp://127.0.0.1:#{four.port}")
          assert_equal "127.0.0.1", four.receive.peer.host
          four.send("y", to: "udp://127.0.0.1:#{both.port}")
          assert_equal "udp://127.0.0.1:#{four.port}", both.receive.peer.to_s
        end
      end
    end
  end

  def test_unix_sockets
    Dir.mktmpdir do |folder|
      path = File.join(folder, "server")
      in_tasks do
        echo("unixgram://#{path}") do |server|
          Gyre.datagram(connect: "unixgram://#{path}") do |socket|
            socket.send("hello")
            packet = socket.receive
            assert_equal ["HELLO", path, "unixgram://#{path}"], [packet.bytes, packet.peer.path, packet.peer.to_s]
            assert_nil server.port
            assert_nil packet.peer.host
          end
        end
        refute_path_exists path
        assert_raises(Errno::ENOENT) { Gyre.datagram(connect: "unixgram://#{path}") }
      end
    end
  end

  def test_a_full_receiver_stops_a_connected_sender_and_refuses_an_unconnected_one
    Dir.mktmpdir do |folder|
      address = "unixgram://#{folder}/server"
      in_tasks do |task|
        Gyre.datagram(address) do |server|
          error = assert_raises(Errno::EAGAIN) { server_full(folder, address) }
          assert_includes error.message, "send on"
          sent = 0
          sending = task.async { Gyre.datagram(connect: address) { |socket| 100.times { |number| socket.send(number.to_s) && sent += 1 } } }
          task.yield
          assert_operator sent, :<, 100
          numbers = []
          while (packet = server.receive(timeout: sent < 100 ? 10 : 0))
            numbers << packet.bytes
          end
          sending.wait
          assert_equal Array.new(100, &:to_s), numbers - ["full"]
        end
      end
    end
  end

  def test_a_sender_without_an_address_cannot_be_answered
    Dir.mktmpdir do |folder|
      in_tasks do
        Gyre.datagram("unixgram://#{folder}/server") do |server|
          Socket.open(:UNIX, :DGRAM) do |socket|
            socket.connect(Addrinfo.unix("#{folder}/server", :DGRAM))
            socket.write("x")
          end
          packet = server.receive
          assert_nil packet.peer.path
          assert_raises(ArgumentError) { packet.reply("y") }
        end
      end
    end
  end

  def test_a_forked_child_leaves_the_parents_packets_alone
    in_tasks do
      Gyre.datagram("udp://127.0.0.1:0") do |server|
        client(server) do |socket|
          3.times { |number| socket.send(number.to_s) }
          assert_equal "0", server.receive.bytes.tap { server.receive.reply("from the parent") }
          reader, writer = IO.pipe
          pid = fork do
            packet = server.receive(timeout: 0)
            writer.write(packet ? packet.bytes : "none")
            writer.close
            exit! 0
          end
          writer.close
          assert_equal "none", reader.read
          reader.close
          Process.wait(pid)
          assert_equal "2", server.receive.bytes
          assert_equal "from the parent", socket.receive.bytes
          assert_nil socket.receive(timeout: 0)
        end
      end
    end
  end

  def test_peers_are_keys_and_destinations
    in_tasks do
      Gyre.datagram("udp://127.0.0.1:0") do |server|
        client(server) do |socket|
          2.times { socket.send("x") }
          first, second = Array.new(2) { server.receive }
          assert_equal({ first.peer => 1 }, { first.peer => 0 }.merge(second.peer => 1))
          assert_equal socket.local, first.peer
          server.send("to the peer", to: first.peer)
          server.send("to the address", to: first.peer.to_s)
          assert_equal ["to the peer", "to the address"], Array.new(2) { socket.receive.bytes }
        end
      end
    end
  end

  def test_packets_survive_a_collection_and_a_compaction
    in_tasks do
      Gyre.datagram("udp://127.0.0.1:0") do |server|
        client(server) do |socket|
          10.times { |number| socket.send("packet #{number}" * 100) }
          first = server.receive
          GC.start
          move_objects
          assert_equal "packet 0" * 100, first.bytes
          assert_equal Array.new(9) { |number| "packet #{number + 1}" * 100 }, Array.new(9) { server.receive.bytes }
          first.reply("still there")
          assert_equal "still there", socket.receive.bytes
        end
      end
    end
  end

  def test_a_wrong_address_is_refused
    assert_raises(ArgumentError) { Gyre.datagram }
    assert_raises(ArgumentError) { Gyre.datagram("tcp://127.0.0.1:0") }
    assert_raises(SocketError) { Gyre.datagram(connect: "udp://no-such-name.invalid:1") }
    Gyre.datagram("udp://127.0.0.1:0") do |socket|
      error = assert_raises(Errno::EADDRINUSE) { Gyre.datagram("udp://127.0.0.1:#{socket.port}") }
      assert_includes error.message, "udp://127.0.0.1:#{socket.port}"
      assert_raises(Errno::EDESTADDRREQ) { socket.send("x") }
    end
  end

  private

  def ipv6?
    Socket.ip_address_list.any?(&:ipv6_loopback?)
  end

  def server_full(folder, address)
    Gyre.datagram("unixgram://#{folder}/client") { |socket| 10_000.times { socket.send("full", to: address) } }
  end
end
