# frozen_string_literal: true

require "test_helper"
require "event_machine/reactors"
require "tmpdir"

# Connections and servers: callbacks, their order, and how connections end.
class EventMachineConnectionTest < Minitest::Test
  include GyreTest::Reactors

  def test_a_thread_connects_and_gets_the_error_of_an_address
    received = error = nil
    run_reactor do
      port = serve(Echo)
      Thread.new do
        error = assert_raises(EM::ConnectionError) { EM.connect("no such host", port) }
        told = ->(name, _, data = nil) { received = data and EM.stop if name == :receive_data }
        EM.connect("127.0.0.1", port, Told, told).send_data("thread")
      end
    end
    assert_equal "thread", received
    assert error
  end

  # Waits in its first callback.
  class Patient < Told
    def receive_data(data)
      super
      return unless data == "wait"

      while_open { tell(:waits) || sleep }
    rescue IOError, SystemCallError => error
      tell(:told, error.class)
    end
  end

  ENDS = {
    "the peer closes" => [IOError, ->(peer, _) { peer.close }],
    "the peer sends and closes" => [IOError, "more", ->(peer, _) { peer.write("more") and peer.close }],
    "the peer resets" => [Errno::ECONNRESET, ->(peer, _) { peer.setsockopt(:SOCKET, :LINGER, [1, 0].pack("ii")) and peer.close }],
    "the program closes" => [IOError, ->(_, connection) { connection.close_connection }],
    "silence lasts too long" => [Errno::ETIMEDOUT, ->(_, connection) { connection.comm_inactivity_timeout = 0.01 }]
  }.freeze

  def test_a_callback_that_waits_learns_of_the_connections_end
    ENDS.each do |name, (*expected, ending)|
      calls = []
      run_reactor do
        peer = nil
        port = serve(Patient, lambda do |call, connection, *rest|
          EM.next_tick { ending.call(peer, connection) } if call == :waits
          calls.concat(rest.grep_v("wait")) if %i[told receive_data].include?(call)
          EM.stop if call == :unbind
        end)
        EM.next_tick { (peer = TCPSocket.new("127.0.0.1", port)).write("wait") }
      end
      assert_equal expected, calls, name
    end
  end

  def test_a_thread_that_connects_learns_of_the_reactors_end
    error = nil
    run_reactor do
      thread = Thread.new do
        sleep 0.001 while EM.reactor_running? && !EM.stopping?
        EM.connect("127.0.0.1", 1)
      rescue RuntimeError => raised
        error = raised.message
      end
      EM.add_shutdown_hook { sleep 0.1 }
      EM.next_tick { EM.stop }
      @thread = thread
    end
    @thread.join
    assert_match(/the reactor has ended|not initialized/, error)
  end

  def test_a_clients_callbacks_come_in_order
    calls = []
    run_reactor do
      told = lambda do |name, connection, *arguments|
        calls << [name, *arguments]
        connection.send_data("hello") if name == :connection_completed
        connection.close_connection_after_writing if name == :receive_data
        EM.stop if name == :unbind
      end
      EM.connect("127.0.0.1", serve(Echo), Told, told) { calls << [:block] }
    end
    assert_equal [[:post_init], [:block], [:connection_completed], [:receive_data, "hello"], [:unbind, nil]], calls
  end

  def test_a_refused_connection_is_unbound_with_the_reason
    reason = nil
    free = free_port
    run_reactor do
      EM.connect("127.0.0.1", free, Told, ->(name, _, error = nil) { reason = error and EM.stop if name == :unbind })
    end
    assert_same Errno::ECONNREFUSED, reason
  end

  def test_bytes_leave_before_the_close_after_writing
    bytes = "x" * 3_000_000
    received = +""
    run_reactor do
      port = serve(Told, lambda { |name, connection, *|
        connection.send_data(bytes) && connection.close_connection_after_writing if name == :post_init
      })
      EM.connect("127.0.0.1", port, Told, lambda { |name, _, data = nil|
        received << data if name == :receive_data
        EM.stop if name == :unbind
      })
    end
    assert_equal bytes.bytesize, received.bytesize
  end

  def test_input_waits_in_order_for_a_callback_that_sleeps_and_others_go_on
    calls = []
    slow = other = nil
    run_reactor do
      port = serve(Told, lambda { |name, _, data = nil|
        next unless name == :receive_data

        if data == "slow"
          slow.send_data("after")
          other.send_data("other")
          sleep(0.001) until calls.any?
        end
        calls << data
        EM.stop if data == "after"
      })
      slow, other = Array.new(2) { EM.connect("127.0.0.1", port) }
      slow.send_data("slow")
    end
    assert_equal %w[other slow after], calls
  end

  def test_a_paused_connection_gets_nothing_until_it_is_resumed
    calls = []
    run_reactor do
      client = nil
      port = serve(Told, lambda { |name, connection, data = nil|
        calls << data if name == :receive_data
        if data == "one"
          connection.pause
          client.send_data("two")
          EM.add_timer(0.02) { calls << :resumed and connection.resume }
        end
        EM.stop if data == "two"
      })
      client = EM.connect("127.0.0.1", port) { |connection| connection.send_data("one") }
    end
    assert_equal ["one", :resumed, "two"], calls
  end

  def test_an_idle_connection_is_closed_by_its_time_limit
    reason = nil
    run_reactor do
      port = serve(Told, lambda { |name, connection, error = nil|
        connection.comm_inactivity_timeout = 0.02 if name == :post_init
        reason = error and EM.stop if name == :unbind
      })
      EM.connect("127.0.0.1", port)
    end
    assert_same Errno::ETIMEDOUT, reason
  end

  def test_an_exception_in_one_connection_closes_no_other
    received = nil
    EM.error_handler { |error| assert_equal "mine", error.message }
    run_reactor do
      port = serve(Told, lambda { |name, connection, data = nil|
        raise "mine" if data == "raise"

        connection.send_data(data) if name == :receive_data
      })
      EM.connect("127.0.0.1", port) { |connection| connection.send_data("raise") }
      EM.connect("127.0.0.1", port, Told, lambda { |name, connection, data = nil|
        EM.add_timer(0.02) { connection.send_data("fine") } if name == :post_init
        received = data and EM.stop if name == :receive_data
      })
    end
    assert_equal "fine", received
  end

  def test_a_unix_socket_serves_and_connects
    received = nil
    Dir.mktmpdir do |folder|
      path = File.join(folder, "socket")
      run_reactor do
        EM.start_unix_domain_server(path, Echo)
        EM.connect_unix_domain(path, Told, lambda { |name, connection, data = nil|
          connection.send_data("over unix") if name == :connection_completed
          received = data and EM.stop if name == :receive_data
        })
      end
    end
    assert_equal "over unix", received
  end

  def test_a_connection_that_is_closed_before_it_stands_is_completed_first
    calls = []
    run_reactor do
      EM.connect("127.0.0.1", serve(Echo), Told, ->(name, *) { calls << name and (EM.stop if name == :unbind) }, &:close_connection_after_writing)
    end
    assert_equal %i[post_init connection_completed unbind], calls
  end

  def test_a_server_has_an_address_and_a_connection_of_nothing_does_nothing
    run_reactor do
      server = EM.start_server("127.0.0.1", 0, Echo)
      assert_equal "127.0.0.1", Socket.unpack_sockaddr_in(EM.get_sockname(server)).last
      assert_nil EM.get_peername(server)
      EM::Connection.new(nil).close_connection
      EM.stop
    end
  end

  def test_connections_that_are_open_at_the_end_are_unbound
    calls = []
    run_reactor do
      told = ->(name, *) { calls << name and calls.count(:post_init) == 2 && EM.stop }
      EM.connect("127.0.0.1", serve(Told, told), Told, told)
    end
    assert_equal 2, calls.count(:unbind)
  end

  def test_the_handler_is_checked
    assert_raises(ArgumentError) { EM.klass_from_handler(EM::Connection, String) }
    assert_raises(ArgumentError) { EM.klass_from_handler(EM::Connection, Module.new { def initialize(one); end }) }
    handler = Module.new
    assert_same EM.klass_from_handler(EM::Connection, handler), EM.klass_from_handler(EM::Connection, handler)
  end

  def test_connection_completed_waits_for_a_post_init_that_parks
    calls = []
    run_reactor do
      EM.connect("127.0.0.1", serve, Told, lambda { |name, *|
        sleep(0.05) if name == :post_init
        calls << name
        EM.stop if name == :connection_completed
      })
    end
    assert_equal %i[post_init connection_completed], calls.first(2)
  end

  def test_an_error_of_the_system_in_a_callback_is_the_programs
    raising = ->(at) { ->(name, *) { raise Errno::ENOENT, "the program's" if name == at } }
    runs = {
      connection_completed: -> { EM.connect("127.0.0.1", serve, Told, raising.call(:connection_completed)) },
      post_init: -> { EM.connect("127.0.0.1", serve(Told, raising.call(:post_init))) },
      accepted: -> { EM.connect("127.0.0.1", serve { raise Errno::ENOENT, "the program's" }) },
      packet: lambda {
        socket = EM.open_datagram_socket("127.0.0.1", 0, Told, raising.call(:receive_data))
        socket.send_datagram("x", "127.0.0.1", Addrinfo.new(socket.get_sockname).ip_port)
      }
    }
    runs.each do |name, run|
      assert_match(/the program's/, assert_raises(Errno::ENOENT, name.to_s) { run_reactor(&run) }.message)
    end
  end

  def test_bytes_that_a_thread_sends_before_it_closes_arrive
    received = nil
    run_reactor do
      port = serve do |connection|
        Thread.new { connection.send_data("all") and connection.close_connection_after_writing }
      end
      EM.connect("127.0.0.1", port, Told, ->(name, _, data = nil) { name == :receive_data ? received = data : (EM.stop if name == :unbind) })
    end
    assert_equal "all", received
  end

  def test_an_ended_connection_answers
    answers = nil
    run_reactor do
      ended = lambda do |connection|
        answers = [connection.get_peername, connection.get_sockname, connection.pause, connection.resume, connection.start_tls,
                   connection.send_data("x"), connection.send_file_data(__FILE__), connection.get_outbound_data_size]
        EM.stop
      end
      EM.connect("127.0.0.1", serve, Told, lambda { |name, connection, *|
        connection.close_connection if name == :connection_completed
        EM.next_tick { ended.call(connection) } if name == :unbind
      })
    end
    assert_equal [nil, nil, false, false, nil, -1, -1, 0], answers
  end
end
