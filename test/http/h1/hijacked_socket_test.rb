# frozen_string_literal: true

require "test_helper"
require "io/wait"
require "socket"
require "stringio"
require "tempfile"
require "gyre"
require "gyre/http/h1/hijacked_transport"

class HTTP1HijackedSocketTest < Minitest::Test
  EARLY = "early\nmo"
  # Each way of reading, and what it returns when "re\n" and the end follow on the wire.
  WAYS = {
    read: ["early\nmore\n", lambda(&:read)], read_some: ["early\nmor", ->(io) { io.read(9) }],
    readpartial: [EARLY, ->(io) { io.readpartial(100) }], sysread: [EARLY, ->(io) { io.sysread(100) }],
    sysread_into: ["ear", ->(io) { (+"x").tap { |buffer| io.sysread(3, buffer) } }],
    read_nonblock: [EARLY, ->(io) { io.read_nonblock(100) }], gets: ["early\n", lambda(&:gets)],
    gets_to_the_end: ["early\nmore\n", ->(io) { io.gets(nil) }], gets_chomp: ["early", ->(io) { io.gets(chomp: true) }],
    readline: ["early\n", lambda(&:readline)], readlines: [%W[early\n more\n], lambda(&:readlines)],
    each_line: [%W[early\n more\n], ->(io) { io.each_line.to_a }], readbyte: [101, lambda(&:readbyte)],
    getbyte: [101, lambda(&:getbyte)], getc: ["e", lambda(&:getc)], readchar: ["e", lambda(&:readchar)],
    each_byte: [[101, 97], ->(io) { io.each_byte.first(2) }], each_char: [%w[e a], ->(io) { io.each_char.first(2) }],
    recv: [EARLY, ->(io) { io.recv(100) }], recv_nonblock: [EARLY, ->(io) { io.recv_nonblock(100) }],
    recv_into: [EARLY, ->(io) { (+"x").tap { |buffer| io.recv(100, 0, buffer) } }],
    recv_peek: [[EARLY, EARLY], ->(io) { [io.recv(100, Socket::MSG_PEEK), io.recv(100)] }],
    copy_stream: ["early\nmore\n", ->(io) { StringIO.new.tap { |out| IO.copy_stream(io, out) }.string }],
    copy_stream_to_a_file: ["early\nmore\n", lambda do |io|
      Tempfile.create("gyre") { |file| IO.copy_stream(io, file.path) && File.read(file.path) }
    end],
    select: [EARLY, ->(io) { IO.select([io], nil, nil, 60)[0][0].readpartial(100) }],
    wait_readable: [EARLY, ->(io) { io.wait_readable(60) && io.readpartial(100) }], eof?: [false, lambda(&:eof?)]
  }.freeze

  def setup
    plain, @peer = UNIXSocket.pair
    plain.autoclose = false
    @socket = Gyre::HTTP::H1::HijackedSocket.with(plain.fileno, EARLY.b)
  end

  def teardown
    [@socket, @peer].each(&:close)
  end

  # Reads in a way from a pair of its own.
  def read_by(way)
    @peer.write("re\n")
    @peer.close_write
    way.call(@socket)
  ensure
    teardown
    setup
  end

  def test_each_way_of_reading_begins_with_what_came_early
    WAYS.each { |name, (expected, way)| assert_equal expected, read_by(way), name }
  end

  def test_each_way_of_reading_begins_with_it_in_a_fiber_too
    WAYS.each { |name, (expected, way)| assert_equal expected, Gyre.run { read_by(way) }, name }
  end

  def test_then_comes_the_socket_by_the_same_calls
    %i[recv sysread recv_nonblock readpartial].each do |name|
      @socket.readpartial(100)
      @peer.write("ab")
      assert_equal "ab", @socket.public_send(name, 2), name
      @peer.write("x")
    end
  end

  def test_errors_of_the_socket_stay_what_they_are
    @socket.readpartial(100)
    assert_equal :wait_readable, @socket.recv_nonblock(1, exception: false)
    assert_raises(IO::WaitReadable) { @socket.recv_nonblock(1) }
    @peer.close_write
    assert_raises(EOFError) { @socket.sysread(1) }
  end

  def test_everything_else_is_a_sockets
    assert_kind_of Socket, @socket
    @socket.write("out")
    @socket << "put"
    assert_equal "output", @peer.readpartial(10)
  end
end
