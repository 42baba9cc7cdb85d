# frozen_string_literal: true

# How a server behaves on the wire, and its end, is in test/contracts/http_contract_*_test.rb.

require "test_helper"
require "socket"
require "gyre"
require "gyre/http/server"

class HTTPServerTest < Minitest::Test
  def setup
    @listener = TCPServer.new("127.0.0.1", 0)
    limits = Gyre::HTTP::Limits.new(header_count_limit: 5)
    @server = Gyre::HTTP::Server.new(->(_env) { [200, {}, []] }, listeners: [@listener], limits: limits)
  end

  def teardown
    @listener.close
  end

  def test_before_its_start_everything_is_zero_and_harmless
    assert_equal [0], @server.stats.values.uniq
    assert_empty %i[connections idle running accepted requests malformed refused handshakes handshakes_resumed handshakes_failed
                    upgraded waiting waited shed away] - @server.stats.keys
    assert_equal 0, @server.interrupt(Gyre::Stop.new)
    @server.stop
    @server.drain
    @server.close
    assert_equal 5, @server.limits.header_count_limit
  end

  def test_a_tls_context_of_a_client_is_refused_when_it_is_made
    [Gyre::TLS.client, true, { @listener => Gyre::TLS.client }].each do |tls|
      error = assert_raises(ArgumentError) { Gyre::HTTP::Server.new(->(_env) {}, listeners: [@listener], tls: tls) }
      assert_includes error.message, "a context of Gyre::TLS.server"
    end
  end

  def test_it_does_not_start_without_a_scheduler_of_ours
    assert_match(/native engine, and here is none/, assert_raises(RuntimeError) { @server.start }.message)
    Thread.new do
      Fiber.set_scheduler(Gyre::Scheduler.new("select"))
      assert_match(/and here is one of the portable engine/, assert_raises(RuntimeError) { @server.start }.message)
    end.join
  end

  def test_a_loop_keeps_no_server_that_was_closed
    apps = ObjectSpace::WeakMap.new
    Gyre.run do
      20.times do
        app = Class.new { def call(_env) = [200, {}, []] }.new
        apps[app] = true
        Gyre::HTTP::Server.new(app, listeners: [@listener]).start.close
      end
      GC.start
      assert_operator apps.keys.size, :<, 10 # a stack may still hold some
    end
  end

  def test_it_starts_once
    error = nil
    Thread.new do
      Fiber.set_scheduler(Gyre::Scheduler.new)
      @server.start
      error = assert_raises(RuntimeError) { @server.start }
      @server.close
    end.join
    assert_match(/started already/, error.message)
  end

  def test_it_leaves_the_listening_sockets_open
    Thread.new do
      Fiber.set_scheduler(Gyre::Scheduler.new)
      Fiber.schedule { assert_equal true, @server.start.shutdown(1) }
    end.join
    refute @listener.closed?
  end

  def test_without_a_log_it_writes_to_standard_error
    _, err = capture_io { Gyre::HTTP::Server::ErrorLog.new.error("trouble\n") }
    assert_equal "gyre: trouble\n", err
  end
end
