# frozen_string_literal: true

require "test_helper"
require "socket"
require "io/wait"
require "gyre/http1/hijacked_socket"

class HTTP1HijackedSocketTest < Minitest::Test
  def setup
    @plain, @peer = UNIXSocket.pair
    @socket = Gyre::HTTP1::HijackedSocket.new(@plain, "put back".b)
  end

  def teardown
    [@plain, @peer].each(&:close)
  end

  def test_what_was_put_back_comes_first
    @peer.write(" and sent")
    assert_equal "put", @socket.read(3)
    assert_equal " back and", @socket.read(9)
    assert_equal " s", @socket.read(2)
    @peer.close_write
    assert_equal "ent", @socket.read
    assert_nil @socket.read(1)
  end

  def test_reading_to_the_end_takes_both
    @peer.write(", sent")
    @peer.close_write
    assert_equal "put back, sent", @socket.read
  end

  def test_each_way_to_read_begins_with_it
    %i[readpartial sysread recv read_nonblock recv_nonblock].each do |name|
      socket = Gyre::HTTP1::HijackedSocket.new(@plain, "abc".b)
      assert_equal "ab", socket.public_send(name, 2), name
      assert_equal "c", socket.public_send(name, 2), name
      @peer.write("d")
      assert_equal "d", socket.public_send(name, 2), name
    end
    assert_equal "p".ord, @socket.getbyte
    buffer = +""
    assert_same buffer, @socket.readpartial(3, buffer)
    assert_equal "ut ", buffer
  end

  def test_lines_may_begin_in_it_and_end_in_the_socket
    @peer.write(" line\nnext\n")
    assert_equal "put back line\n", @socket.gets
    assert_equal "next", @socket.gets(chomp: true)
    socket = Gyre::HTTP1::HijackedSocket.new(@plain, "one\ntwo;".b)
    assert_equal ["one", "two;"], [socket.gets(chomp: true), socket.gets(";")]
  end

  def test_it_is_readable_while_there_is_some
    refute @socket.eof?
    assert_same @socket, @socket.wait_readable(0)
    @socket.readpartial(100)
    assert_nil @socket.wait_readable(0)
    @peer.write("x")
    assert @socket.wait_readable(0)
  end

  def test_everything_else_is_the_sockets
    @socket.write("out")
    @socket << "put"
    assert_equal "output", @peer.readpartial(10)
    assert_same @plain, @socket.to_io
    %i[write << flush close close_read close_write closed? read_nonblock write_nonblock].each { |name| assert_respond_to @socket, name }
    @socket.close
    assert @plain.closed?
  end
end
