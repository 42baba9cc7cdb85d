# frozen_string_literal: true

# The connection between its requests. What it says to clients and apps is in test/contracts/http1_contract_*_test.rb.

require "test_helper"
require "gyre/http1/env"
require "gyre/http1/portable_connection"

class HTTP1PortableConnectionTest < Minitest::Test
  # An acceptor and its scheduler; the test plays the loop.
  class Acceptor
    Handle = Struct.new(:block, :cancelled) do
      def cancel = self.cancelled = true
    end

    attr_reader :limits, :template, :requests, :malformed, :watch_handle, :timer, :ran, :seconds

    def initialize
      @limits = Gyre::HTTP1::Limits.new
      @template = Gyre::HTTP1::Env.template
      @ran = []
      @requests = @malformed = 0
    end

    def scheduler = self
    def draining? = false
    def run(connection) = @ran << connection
    def forget(connection) = @ran << [:forgotten, connection]
    def count_request = @requests += 1
    def count_malformed = @malformed += 1
    def watch(_io, _events, &block) = @watch_handle = Handle.new(block, false)

    def after(seconds, &block)
      @seconds = seconds
      @timer = Handle.new(block, false)
    end
  end

  def setup
    @socket, @peer = UNIXSocket.pair
    @acceptor = Acceptor.new
    @connection = Gyre::HTTP1::PortableConnection.new(@acceptor, @socket, "192.0.2.1")
    @connection.begin
  end

  def teardown
    [@socket, @peer].each(&:close)
  end

  def send_and_report(bytes)
    @peer.write(bytes)
    @acceptor.watch_handle.block.call(IO::READABLE)
  end

  def test_it_waits_with_a_watch_and_a_timer_and_without_a_fiber
    assert @connection.idle?
    assert_equal 30, @acceptor.seconds
    send_and_report("GET / HT")
    refute @connection.idle?
    assert_empty @acceptor.ran
    send_and_report("TP/1.1\r\nhost: a\r\n\r\n")
    assert_equal [@connection], @acceptor.ran
    assert @acceptor.watch_handle.cancelled
    assert @acceptor.timer.cancelled
  end

  def test_after_its_requests_it_is_idle_and_keeps_no_buffer
    send_and_report("GET /1 HTTP/1.1\r\nhost: a\r\n\r\nGET /2 HTTP/1.1\r\nhost: a\r\n\r\n")
    2.times do |number|
      assert_equal "/#{number + 1}", @connection.next_request["PATH_INFO"]
      @connection.write_response(200, {}, ["x"])
    end
    assert_nil @connection.next_request
    assert @connection.idle?
    assert_equal [75, 2], [@acceptor.seconds, @acceptor.requests]
    assert_empty @connection.instance_variable_get(:@transport).bytes
    assert_nil @connection.instance_variable_get(:@parser)
  end

  def test_an_idle_connection_ends_when_its_time_is_over_or_the_client_leaves
    send_and_report("GET /1 HTTP/1.1\r\nhost: a\r\n\r\n")
    @connection.next_request
    @connection.write_response(200, {}, ["x"])
    @connection.next_request
    @acceptor.timer.block.call
    assert @connection.closed?
    assert_equal [:forgotten, @connection], @acceptor.ran.last
    assert_nil @connection.next_request
  end

  def test_a_time_that_is_over_in_the_head_is_refused
    send_and_report("GET")
    @acceptor.timer.block.call
    assert_equal [@connection], @acceptor.ran
    assert_nil @connection.next_request
    assert_match(/\AHTTP\/1.1 408 /, @peer.readpartial(1000))
    assert_equal [1, 2], [@acceptor.malformed, @acceptor.seconds]
    send_and_report("more")
    refute @connection.closed?
    @peer.shutdown(:WR)
    @acceptor.watch_handle.block.call(IO::READABLE)
    assert @connection.closed?
  end

  def test_what_is_done_with_a_closed_connection_is_harmless_or_says_so
    send_and_report("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\n")
    @connection.next_request
    2.times { @connection.close }
    @connection.reset
    assert_nil @connection.next_request
    assert_raises(Gyre::HTTP1::RequestCut) { @connection.read_body(5) }
    assert_raises(IOError) { @connection.hijack }
    assert_raises(Errno::EPIPE) { @connection.write_response(200, {}, ["x"]) }
    assert_equal false, @connection.write_interim(103, {})
    assert_equal [0, "192.0.2.1", false], [@connection.body_bytes_sent, @connection.remote_address, @connection.hijacked?]
    assert_match(/192\.0\.2\.1 closed/, @connection.inspect)
  end
end
