# frozen_string_literal: true

# Records of TLS that bring no data (new keys, pieces of messages), from a peer that makes its own:
# they cost a bounded time each call, a flood of them ends the connection, and a message that has
# come in part keeps nothing waiting once its rest is there.

require "test_helper"
require "support/transports"
require "support/raw_tls13"

class TLSRecordsTest < Minitest::Test
  include GyreTest::Transports

  RECORDS_A_CALL = 64

  def secure? = true

  def test_key_updates_without_data_end_the_connection
    with_peer do |server, peer, socket|
      socket.write(Array.new(31) { peer.key_update }.join, peer.data("one"))
      assert_equal "one", server.read_available
      socket.write(Array.new(2_000) { peer.key_update }.join, peer.data("two"))
      error = assert_raises(Gyre::TLS::Error) { server.read_available }
      assert_equal "receive from client: the peer sends record after record without data", error.message
      assert_raises(Gyre::TLS::Error) { server.read_available }
    end
  end

  def test_new_keys_between_data_are_taken
    with_peer do |server, peer, socket|
      lines = Array.new(20) { |index| "#{index}\n" }
      lines.each do |line|
        socket.write(Array.new(20) { peer.key_update(requested: true) }.join, peer.data(line))
        assert_equal line, server.read_available
        peer.ssl.read_nonblock(1, exception: false) # takes the answers
      end
      server.write("to you\n")
      assert_equal "to you\n", peer.ssl.gets
    end
  end

  def test_a_call_takes_a_limited_number_of_records_and_the_rest_is_pending
    with_peer do |server, peer, socket|
      socket.write(Array.new(200) { peer.data("x") }.join)
      parts = []
      parts << server.read_available(1000).bytesize while parts.empty? || server.pending?
      assert_equal [RECORDS_A_CALL, RECORDS_A_CALL, RECORDS_A_CALL, 200 - (3 * RECORDS_A_CALL)], parts
    end
  end

  def test_answers_that_the_peer_does_not_take_are_bounded
    with_peer do |server, peer, socket|
      most = 0
      error = assert_raises(Gyre::TLS::Error) do
        500.times do
          socket.write(Array.new(30) { peer.key_update(requested: true) }.join, peer.data("x"))
          server.read_available
          most = [most, server.unsent_bytes].max
        end
      end
      assert_equal "receive from client: the peer asks for new keys and takes no answers", error.message
      assert_operator most, :<=, 65 * 1024
    end
  end

  def test_a_write_goes_on_when_the_rest_of_a_message_has_come
    with_peer do |server, peer, socket|
      *first, last = peer.key_update_in_parts(2)
      socket.write(*first)
      assert_equal :wait_readable, server.read_available
      server.queue("answer\n")
      assert_equal :wait_readable, server.flush_available
      assert_equal({ read: true, write: false }, server.wants)
      socket.write(last, peer.data("behind it"))
      assert_equal true, server.flush_available
      assert_equal "answer\n", peer.ssl.gets
      assert server.to_io.wait_readable(0), "the writer took nothing of the reader's"
      assert_equal "behind it", server.read_available
    end
  end

  def test_a_writer_and_a_reader_wait_for_the_rest_of_one_message
    with_peer do |server, peer, socket|
      *first, last = peer.key_update_in_parts(2)
      socket.write(*first)
      Gyre.run do |task|
        reader = task.async { server.read_partial }
        sleep 0
        writer = task.async { server.write("answer\n") }
        sleep 0
        socket.write(last)
        writer.wait
        assert_equal "answer\n", peer.ssl.gets
        socket.write(peer.data("more"))
        assert_equal "more", reader.wait
      end
    end
  end

  # Some clients do that to get through filters.
  def test_a_hello_in_single_bytes_is_taken
    with_hello do |server, near, hello|
      near.write(in_records(hello.byteslice(5..), 1))
      assert_equal :wait_readable, server.handshake_available
      refute_empty near.read_nonblock(100_000), "the server's own hello"
    end
  end

  def test_a_hello_without_an_end_ends_the_connection
    with_hello do |server, near|
      near.write(in_records("\x01\x01\xff\xff".b + ("\0" * 6_000), 1))
      error = assert_raises(Gyre::TLS::Error) { server.handshake_available }
      assert_equal "TLS handshake with client: the peer sends record after record without data", error.message
    end
  end

  def test_an_end_in_the_handshake_is_a_truncation
    near, far = UNIXSocket.pair
    client = keep(Gyre::Transport.new(far, "server")).begin_tls(GyreTest::Transports.contexts.first, name: "localhost")
    near.write("\x15\x03\x03\x00\x02\x01\x00".b)
    error = assert_raises(Gyre::TLS::Truncated) { client.handshake_available }
    assert_equal "TLS handshake with server: the peer ended the connection in the handshake (close_notify)", error.message
  ensure
    near&.close
  end

  private

  def server_context
    certificate, key = GyreTest::Transports.identity("server")
    Gyre::TLS.server(cert: certificate, key: key, ciphersuites: GyreTest::RawTLS13::CIPHER, min_version: "1.3")
  end

  def with_peer
    skip "Ruby's openssl gives no secrets (keylog_cb)" unless OpenSSL::SSL::SSLContext.method_defined?(:keylog_cb=)
    near, far = UNIXSocket.pair
    server = keep(Gyre::Transport.new(far, "client")).begin_tls(server_context)
    peer = GyreTest::RawTLS13.new(near)
    connected = false
    connected ||= peer.connect until server.handshake_available == true && connected
    yield server, peer, near
  ensure
    near&.close
  end

  def with_hello
    near, far = UNIXSocket.pair
    near.setsockopt(:SOCKET, :SNDBUF, 4 * 1024 * 1024)
    client, behind = UNIXSocket.pair
    OpenSSL::SSL::SSLSocket.new(client).connect_nonblock(exception: false)
    server = keep(Gyre::Transport.new(far, "client")).begin_tls(server_context)
    yield server, near, behind.read_nonblock(16_384)
  ensure
    [near, client, behind].each { |socket| socket&.close }
  end

  def in_records(message, length)
    message.scan(/.{1,#{length}}/mn).map { |part| [22, 0x0301, part.bytesize].pack("Cnn") + part }.join
  end
end
