# frozen_string_literal: true

# Connecting to a host name asks the scheduler to resolve it, on every Ruby.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("SchedulerTCPSocketTest", backends: GyreTest::Engines::ALL) do
  def connect
    server = TCPServer.new("127.0.0.1", 0)
    resolved = []
    Gyre.run do
      Fiber.scheduler.define_singleton_method(:address_resolve) { |name| (resolved << name) && super(name) }
      yield server.local_address.ip_port
    end
    resolved
  ensure
    server.close
  end

  def test_a_host_name_is_resolved_by_the_scheduler
    assert_equal ["localhost"], (connect { |port| TCPSocket.new("localhost", port).close })
    assert_equal ["localhost"], (connect { |port| TCPSocket.open("localhost", port, &:close) })
  end

  def test_net_http_goes_the_same_way
    require "net/http"
    resolved = connect do |port|
      http = Net::HTTP.new("localhost", port)
      http.start
      http.finish
    end
    assert_equal ["localhost"], resolved
  end

  def test_the_fast_way_is_taken_where_it_is_asked_for
    skip "this Ruby has no fast_fallback" unless Socket.respond_to?(:tcp_fast_fallback)

    assert_empty(connect { |port| TCPSocket.new("localhost", port, fast_fallback: true).close })
  end

  def test_other_threads_are_not_touched
    assert_empty(connect { |port| Thread.new { TCPSocket.new("localhost", port).close }.join })
  end

  def test_options_and_errors_are_as_before
    Gyre.run do
      assert_raises(Errno::ECONNREFUSED) { TCPSocket.new("localhost", 1, connect_timeout: 5) }
      assert_raises(ArgumentError) { TCPSocket.new }
    end
  end
end
