# frozen_string_literal: true

require "test_helper"
require "event_machine/reactors"

# Peers that reset, vanish or take nothing, and forked processes: each harms itself alone.
class EventMachinePeersTest < Minitest::Test
  include GyreTest::Reactors

  def test_a_reset_is_the_reason_of_unbind
    accepted = reason = nil
    run_reactor do
      port = serve(Told, lambda { |name, _, error = nil|
        accepted = true
        reason = error and EM.stop if name == :unbind
      })
      socket = TCPSocket.new("127.0.0.1", port)
      eventually(what: "the connection") { accepted }
      socket.setsockopt(:SOCKET, :LINGER, [1, 0].pack("ii"))
      socket.close
    end
    assert_same Errno::ECONNRESET, reason
  end

  def test_a_peer_that_takes_nothing_is_closed_with_what_waits_for_it
    unsent = nil
    silent = nil
    run_reactor do
      port = serve(Told, lambda { |name, connection, *|
        connection.send_data("x" * 20_000_000) if name == :post_init
        EM.stop if name == :unbind
        next unless name == :post_init

        EM.add_timer(0.05) { unsent = connection.get_outbound_data_size and connection.close_connection }
      })
      silent = TCPSocket.new("127.0.0.1", port)
    end
    assert_operator unsent, :>, 1_000_000
  ensure
    silent&.close
  end

  def test_what_a_peer_sent_before_its_end_arrives
    received = +""
    run_reactor do
      port = serve(Told, ->(name, _, data = nil) { name == :receive_data ? received << data : (EM.stop if name == :unbind) })
      TCPSocket.open("127.0.0.1", port) { |socket| socket.write("x" * 100_000) }
    end
    assert_equal 100_000, received.bytesize
  end

  def test_connections_that_come_and_go_leave_nothing
    unbound = 0
    run_reactor do
      port = serve(Told, ->(name, *) { EM.stop if name == :unbind && (unbound += 1) == 200 })
      EM.defer { 200.times { TCPSocket.new("127.0.0.1", port).close } }
    end
    assert_empty EM.reactor.conns
    assert_empty EM.reactor.descriptors
  end

  def test_a_forked_reactor_starts_over_and_the_parents_goes_on
    reader, writer = IO.pipe
    status = echoed = nil
    run_reactor do
      port = serve(Echo)
      peer = EM.connect("127.0.0.1", port, Told, ->(name, _, data = nil) { (echoed = data) && EM.stop if name == :receive_data })
      pid = EM.fork_reactor do
        writer.write("#{EM.connection_count} #{EM.reactor.conns.size}")
        EM.add_timer(0.01) { EM.stop }
      end
      EM.next_tick { (status = Process::Status.wait(pid)) && peer.send_data("parent") }
    end
    writer.close
    assert_equal ["0 0", true, "parent"], [reader.read, status.success?, echoed]
  ensure
    reader.close
  end

  def test_an_exception_in_unbind_at_the_end_reaches_run_and_all_are_unbound
    unbound = 0
    error = assert_raises(RuntimeError) do
      run_reactor do
        port = serve
        2.times { EM.connect("127.0.0.1", port, Told, ->(name, *) { (unbound += 1) && raise("in unbind") if name == :unbind }) }
        EM.add_timer(0.02) { EM.stop }
      end
    end
    assert_equal ["in unbind", 2], [error.message, unbound]
  end

  def test_an_unbind_that_connects_again_at_the_end_leaves_no_socket
    port = late = nil
    run_reactor do
      port = serve
      EM.connect("127.0.0.1", port, Told, lambda { |name, *|
        late = EM.connect("127.0.0.1", port) if name == :unbind
        EM.stop if name == :connection_completed
      })
    end
    assert_nil late.get_sockname
    assert_empty EM.reactor.descriptors
  end

  def test_a_file_for_a_peer_that_goes_fails
    begun = failure = nil
    Tempfile.create("large") do |file|
      file.truncate(20_000_000)
      run_reactor do
        port = serve(Told, lambda { |name, connection, *|
          (begun = connection.stream_file_data(file.path)).errback { |reason| failure = reason and EM.stop } if name == :post_init
        })
        socket = TCPSocket.new("127.0.0.1", port)
        eventually(what: "the beginning") { begun }
        socket.close
      end
    end
    assert_equal "the connection is closed", failure
  end
end
