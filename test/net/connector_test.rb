# frozen_string_literal: true

# How names with several addresses are connected to (Gyre::Net::Connector), in tasks and in plain
# threads. All addresses are loopback.
require "test_helper"
require "gyre"
require "gyre/net/endpoint"

# The same in tasks and in plain threads: a class that includes it has
# `in_its_way`.
module ConnectorCases
  def setup
    @sockets = []
  end

  def teardown
    @sockets.each(&:close)
  end

  def test_the_next_address_is_tried_at_once_where_one_refuses
    port = listen("127.0.0.3")
    named("127.0.0.2", "127.0.0.3", "127.0.0.4") do
      assert_equal "127.0.0.3:#{port}", in_its_way { connected_to(port, 10) }
    end
  end

  def test_an_address_that_does_not_answer_holds_up_the_next_for_a_moment_only
    port = listen_without_room("127.0.0.2")
    listen("127.0.0.3", port)
    named("127.0.0.2", "127.0.0.3") do
      took_s = duration_s { assert_equal "127.0.0.3:#{port}", in_its_way { connected_to(port, 30) } }
      assert_operator took_s, :>=, Gyre::Net::Connector::ATTEMPT_DELAY_S * 0.9
    end
  end

  def test_an_error_names_each_address
    port = free_port
    named("127.0.0.2", "127.0.0.3") do
      error = assert_raises(Errno::ECONNREFUSED) { in_its_way { connected_to(port, 10) } }
      assert_equal "Connection refused - connect to tcp://several.invalid:#{port}: 127.0.0.2:#{port}: Connection refused, " \
                   "127.0.0.3:#{port}: Connection refused", error.message
    end
  end

  def test_the_time_is_for_all_addresses_together
    port = listen_without_room("127.0.0.2")
    named("127.0.0.3", "127.0.0.2") do
      error = assert_raises(Errno::ETIMEDOUT) { in_its_way { connected_to(port, 1) } }
      assert_match(/ - connect to tcp:\S+: 127\.0\.0\.3:\d+: Connection refused, 127\.0\.0\.2:\d+: no response within 1 s\z/, error.message)
    end
  end

  def test_a_name_that_is_not_resolved_in_time_is_given_up
    resolved_by(->(*) { sleep }) do
      [0.0500001, 0].each do |timeout_s|
        error = assert_raises(Errno::ETIMEDOUT) { in_its_way { connected_to(1, timeout_s) } }
        assert_includes error.message, "connect to tcp://several.invalid:1: its name was not resolved within #{timeout_s.round(3)} s"
      end
    end
  end

  def test_a_name_without_an_address_is_an_error_of_the_name
    resolved_by(->(*) { raise SocketError, "no such name" }) do
      error = assert_raises(SocketError) { in_its_way { connected_to(1, 10) } }
      assert_equal "connect to tcp://several.invalid:1: no such name", error.message
    end
  end

  def test_what_is_wrong_with_the_own_network_does_not_hide_the_peers_error
    port = free_port
    named("255.255.255.255", "127.0.0.2") { assert_raises(Errno::ECONNREFUSED) { in_its_way { connected_to(port, 10) } } }
  end

  private

  def connected_to(port, timeout_s)
    socket = Gyre::Endpoint.parse("tcp://several.invalid:#{port}").connect(timeout_s)
    socket.remote_address.inspect_sockaddr
  ensure
    socket&.close
  end

  # Inside, the name has these addresses.
  def named(*addresses, &block)
    resolved_by(->(_host, port, *) { addresses.map { |address| Addrinfo.tcp(address, port) } }, &block)
  end

  def resolved_by(resolver)
    original = Addrinfo.method(:getaddrinfo)
    verbose, $VERBOSE = $VERBOSE, nil
    Addrinfo.define_singleton_method(:getaddrinfo) do |host, *rest|
      host == "several.invalid" ? resolver.call(host, *rest) : original.call(host, *rest)
    end
    yield
  ensure
    Addrinfo.define_singleton_method(:getaddrinfo, original)
    $VERBOSE = verbose
  end

  def listen(address, port = 0, backlog: 16)
    socket = Socket.new(:INET, :STREAM)
    @sockets << socket
    socket.setsockopt(:SOCKET, :REUSEADDR, true)
    socket.bind(Addrinfo.tcp(address, port))
    socket.listen(backlog)
    socket.local_address.ip_port
  end

  # Handshakes are not answered any more once as many connections wait as may (listen(2)).
  def listen_without_room(address, port = 0)
    port = listen(address, port, backlog: 0)
    10.times do
      socket = Socket.new(:INET, :STREAM)
      @sockets << socket
      pending = socket.connect_nonblock(Addrinfo.tcp(address, port), exception: false) == :wait_writable
      return port if pending && !socket.wait_writable(0.2)
    end
    flunk "the kernel takes more connections than it was told"
  end
end

class ConnectorInThreadTest < Minitest::Test
  include ConnectorCases

  def in_its_way = yield
end

class ConnectorTest < Minitest::Test
  include ConnectorCases

  def in_its_way(&block) = Gyre.run { block.call }

  def test_the_families_take_turns
    skip "this machine has no IPv6" unless Socket.ip_address_list.any?(&:ipv6_loopback?)
    port = free_port
    named("::1", "::ffff:127.0.0.5", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.2") do
      error = assert_raises(Errno::ECONNREFUSED) { connected_to(port, 10) }
      assert_equal %w[[::1] 127.0.0.2 [::ffff:127.0.0.5] 127.0.0.3 127.0.0.4], error.message.scan(/(\S+):#{port}: Connection/).flatten
    end
  end

  def test_localhost_may_be_absolute
    port = listen("127.0.0.1")
    Gyre::Endpoint.parse("tcp://localhost.:#{port}").connect(10).close
    assert_includes Gyre::Endpoint.parse("tcp://LOCALHOST.:0").bind.each(&:close).map { |listener| listener.endpoint.host }, "127.0.0.1"
  end

  def test_other_tasks_run_meanwhile
    port = listen_without_room("127.0.0.2")
    Gyre.run do |task|
      connecting = task.async { Gyre::Endpoint.parse("tcp://127.0.0.2:#{port}").connect(60) }
      5.times { sleep(0.001) }
      refute_predicate connecting, :finished?
      connecting.stop
    end
  end

  # The test fails where a descriptor stays open.
  def test_a_stopped_task_leaves_no_socket
    port = listen_without_room("127.0.0.2")
    listen_without_room("127.0.0.3", port)
    named("127.0.0.2", "127.0.0.3") do
      Gyre.run do |task|
        connecting = task.async { connected_to(port, nil) }
        sleep Gyre::Net::Connector::ATTEMPT_DELAY_S * 2 # both are under way
        connecting.stop
        assert_predicate connecting.tap(&:wait), :stopped?
      end
    end
  end

  def test_a_killed_thread_leaves_no_socket_and_no_thread_that_resolves
    port = listen_without_room("127.0.0.2")
    thread = Thread.new { Gyre::Endpoint.parse("tcp://127.0.0.2:#{port}").connect(nil) }
    eventually(what: "the thread waits") { thread.stop? }
    thread.kill.join

    resolving = Thread::Queue.new
    resolved_by(->(*) { resolving.push(Thread.current).then { sleep } }) do
      thread = Thread.new { connected_to(port, 60) }
      resolver = resolving.pop
      thread.kill.join
      resolver.join(30)
      refute_predicate resolver, :alive?
    end
  end
end
