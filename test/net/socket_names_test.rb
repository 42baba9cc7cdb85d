# frozen_string_literal: true

# TCPSocket.new and getaddrinfo in a fiber do what Ruby's own do outside of one.

require "test_helper"
require "support/engines"
require "gyre"
require "gyre/net/socket_names"
require "net/http"

GyreTest::Engines.test_case("SocketNamesTest") do
  # A listener whose queue is full: it answers nothing. Yields its port.
  def with_deaf_address(address)
    deaf = Socket.new(:INET, :STREAM)
    deaf.bind(Socket.sockaddr_in(0, address))
    deaf.listen(0)
    port = deaf.local_address.ip_port
    fillers = Array.new(8) do
      Socket.new(:INET, :STREAM).tap { |socket| socket.connect_nonblock(Socket.sockaddr_in(port, address), exception: false) }
    end
    skip "this system answers for a full queue" if fillers.all? { |socket| socket.wait_writable(0) }
    yield port
  ensure
    [deaf, *fillers].compact.each(&:close)
  end

  def with_addresses(*addresses)
    Gyre.run do
      Fiber.scheduler.define_singleton_method(:address_resolve) { |name| name == "several.example" ? addresses : super(name) }
      yield
    end
  end

  def test_the_next_address_is_tried_while_the_first_is_silent
    with_deaf_address("127.0.0.2") do |port|
      server = TCPServer.new("127.0.0.1", port)
      with_addresses("127.0.0.2", "127.0.0.1") do
        socket = TCPSocket.open("several.example", port, connect_timeout: 30)
        assert_instance_of TCPSocket, socket
        assert_equal "127.0.0.1", socket.remote_address.ip_address
        socket.close
        next if RUBY_VERSION >= "3.4" # Socket.tcp asks in threads of its own there

        Gyre.with_deadline(20) do
          Socket.tcp("several.example", port, connect_timeout: 60) { |other| assert_equal "127.0.0.1", other.remote_address.ip_address }
        end
      end
    ensure
      server.close
    end
  end

  def test_the_time_is_over_while_all_are_silent
    with_deaf_address("127.0.0.2") do |port|
      late = RUBY_VERSION < "4.0" ? Errno::ETIMEDOUT : IO::TimeoutError
      with_addresses("127.0.0.2") { assert_raises(late) { TCPSocket.new("several.example", port, connect_timeout: 0.01) } }
    end
  end

  def test_a_service_has_its_number
    number = Socket.getservbyname("discard")
    Gyre.run do
      [%w[localhost discard], %w[127.0.0.1 discard]].each do |host, service|
        assert_equal [number], Addrinfo.getaddrinfo(host, service, :INET, :STREAM).map(&:ip_port).uniq
      end
      assert_equal number, Addrinfo.tcp("127.0.0.1", "discard").ip_port
      assert_raises(SocketError) { TCPSocket.new("localhost", "no-such-service") }
    end
  end

  def test_an_address_keeps_its_zone
    zone = Socket.getifaddrs.first.name
    outside = Addrinfo.udp("fe80::1%#{zone}", 53).to_sockaddr
    Gyre.run do
      assert_equal outside, Addrinfo.udp("fe80::1%#{zone}", 53).to_sockaddr
      assert_equal outside, Socket.sockaddr_in(53, "fe80::1%#{zone}")
      assert_equal outside, Addrinfo.getaddrinfo("fe80::1%#{zone}", 53, nil, :STREAM).first.to_sockaddr
    end
  end

  def test_an_outage_of_names_is_temporary
    error = (Socket.const_defined?(:ResolutionError) ? Socket::ResolutionError : SocketError).new("getaddrinfo: Temporary failure in name resolution")
    error.define_singleton_method(:error_code) { Socket::EAI_AGAIN }
    system = Addrinfo.method(:getaddrinfo)
    replace_getaddrinfo(->(*) { raise error })
    Gyre.run do
      assert_same error, assert_raises(SocketError) { Fiber.scheduler.address_resolve("several.example") }
    end
  ensure
    replace_getaddrinfo(system)
  end

  private

  # Without Ruby's warning about a method that is defined again.
  def replace_getaddrinfo(method)
    verbose, $VERBOSE = $VERBOSE, nil
    Addrinfo.define_singleton_method(:getaddrinfo, &method)
  ensure
    $VERBOSE = verbose
  end
end
