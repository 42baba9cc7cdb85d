# frozen_string_literal: true

# A hijacked connection over TLS, as apps use it. (How it comes to be: upgrades_test.rb.)

require "test_helper"
require "socket"
require "tmpdir"
require "gyre"
require "gyre/http/h1/hijacked_transport"
require "support/certificates"

class HTTPHijackedTransportTest < Minitest::Test
  def test_it_reads_as_an_io_does
    buffer = +"x"
    pair do |io, peer|
      peer.write("abcdefgh\nij")
      assert_equal "ab", io.read(2)
      assert_same buffer, io.read(1, buffer)
      assert_equal "c", buffer
      assert_equal "de", io.readpartial(2)
      assert_equal "f", io.readpartial(1, buffer)
      assert_equal "f", buffer
      assert_equal "gh\n", io.gets
      assert_equal "ij", io.read_nonblock(10)
      assert_equal :wait_readable, io.read_nonblock(10, exception: false)
      assert_raises(IO::WaitReadable) { io.read_nonblock(10) }
      peer.close_write
      assert_nil io.read(1, buffer)
      assert_empty buffer
      assert_equal "", io.read
      assert_nil io.read_nonblock(1, exception: false)
      assert_raises(EOFError) { io.read_nonblock(1) }
      assert_raises(EOFError) { io.readpartial(1) }
    end
  end

  def test_it_writes_as_an_io_does
    pair do |io, peer|
      assert_equal 3, io.write("a", "bc")
      assert_same io, io << :d << "e"
      assert_equal 2, io.write_nonblock("fg")
      assert_same io, io.flush
      assert_equal "abcdefg", peer.read(7)
      io.close_write
      assert_nil peer.read(1)
      peer.write("still")
      assert_equal "still", io.read(5)
      io.close
      assert_predicate io, :closed?
      assert_raises(IOError) { io.read(1) }
    end
  end

  def test_a_write_that_does_not_wait_takes_nothing_while_the_socket_is_full
    part = "x" * 100_000
    pair do |io, peer|
      taken = 0
      taken += part.bytesize until io.write_nonblock(part, exception: false) == :wait_writable
      assert_raises(IO::WaitWritable) { io.write_nonblock("y") }
      Gyre::Task.current.async { peer.read(taken) }.then { |task| io.flush && assert_equal(taken, task.wait.bytesize) }
    end
  end

  def test_its_own_end_of_reading_is_not_a_cut
    pair do |io, _peer|
      io.close_read
      assert_equal "", io.read
      assert_raises(EOFError) { io.readpartial(1) }
    end
  end

  def test_an_end_of_the_peers_without_that_of_tls_is_a_cut
    pair do |io, peer|
      peer.to_io.shutdown(:WR)
      assert_raises(Gyre::TLS::Truncated) { io.read }
    end
  end

  private

  def pair
    certificate, key = Dir.mktmpdir { |folder| GyreTest::Certificates.new(folder).issue("server").map { |path| File.read(path) } }
    Gyre.run do |task|
      sockets = UNIXSocket.pair
      server, client = sockets.map { |socket| Gyre::Transport.new(socket, "peer") }
      handshake = task.async { server.start_tls(Gyre::TLS.server(cert: certificate, key: key)) }
      client.start_tls(Gyre::TLS.client(verify: false))
      handshake.wait
      yield Gyre::HTTP::H1::HijackedTransport.new(server), client
    ensure
      [server, client].each { |transport| transport&.abandon }
      sockets&.each(&:close)
    end
  end
end
