# frozen_string_literal: true

require "test_helper"
require "gyre/http1/limits"
require "gyre/http1/portable_transport"

class HTTP1PortableTransportTest < Minitest::Test
  def setup
    @socket, @peer = UNIXSocket.pair
    @transport = transport(0.02)
  end

  def teardown
    [@socket, @peer].each(&:close)
  end

  def test_what_came_is_kept_until_it_is_used
    assert_equal :wait, @transport.receive
    @peer.write("abc")
    assert_equal [:data, "abc"], [@transport.receive, @transport.bytes]
    @peer.write("def")
    assert_equal [:data, "abcdef"], [@transport.receive, @transport.bytes]
    @transport.consume(1)
    assert_equal %w[bc def], [@transport.take(2), @transport.take(10)]
    assert_empty @transport.bytes
    assert_equal Encoding::BINARY, @transport.bytes.encoding
    @peer.close
    assert_equal :end, @transport.receive
  end

  def test_filling_waits_for_so_long
    assert_equal :timeout, @transport.fill
    Thread.new { @peer.write("late") }.join
    assert_equal [:data, "late"], [@transport.fill, @transport.bytes]
  end

  def test_writing_waits_for_a_slow_peer_and_gives_up_on_one_that_takes_nothing
    reader = Thread.new { @peer.read(5_000_000) }
    transport(60).write("x" * 5_000_000)
    assert_equal 5_000_000, reader.value.bytesize
    assert_raises(Gyre::HTTP1::WriteTimeout) { @transport.write("x" * 5_000_000) }
    @peer.close
    assert_raises(Errno::EPIPE, Errno::ECONNRESET) { @transport.write("x") }
  end

  def test_what_is_dropped_is_gone
    @peer.write("abc")
    assert_equal :data, @transport.drop
    assert_empty @transport.bytes
    assert_equal :wait, @transport.drop
  end

  def test_it_closes_by_halves_and_whole
    @transport.shutdown_write
    assert_nil @peer.read(1)
    @transport.shutdown_write
    @transport.reset
    assert @socket.closed?
  end

  private

  def transport(limit_s)
    Gyre::HTTP1::PortableTransport.new(@socket, Gyre::HTTP1::Limits.new(read_timeout_s: limit_s, write_timeout_s: limit_s))
  end
end
