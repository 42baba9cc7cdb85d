# frozen_string_literal: true

# Gyre::Transport, each case plain and over TLS.

require "test_helper"
require "support/transports"

module TransportCases
  include GyreTest::Transports

  # --- without waiting ---

  def test_what_has_come_is_read_without_waiting
    client, server = transport_pair
    assert_equal :wait_readable, server.read_available
    client.queue("hello")
    assert_equal true, client.flush_available
    assert_equal "hello", server.read_available
    assert_equal :wait_readable, server.read_available
    assert_equal true, client.finish_available
    assert_nil server.read_available
    assert_nil server.read_available
  end

  def test_a_limit_leaves_the_rest_which_is_pending
    client, server = transport_pair
    client.write("hello world")
    assert_equal "hello", server.read_available(5)
    assert_equal secure?, server.pending?
    assert_equal " world", server.read_available(100)
    refute server.pending?
  end

  def test_a_buffer_of_the_caller_is_filled_and_used_again
    client, server = transport_pair
    buffer = String.new(capacity: 65_536)
    client.write("one")
    assert_same buffer, server.read_available(65_536, buffer)
    assert_equal ["one", Encoding::BINARY], [buffer, buffer.encoding]
    client.write("three")
    assert_same buffer, server.read_available(65_536, buffer)
    assert_equal "three", buffer
    assert_equal :wait_readable, server.read_available(65_536, buffer)
  end

  def test_what_the_socket_does_not_take_stays_queued_in_order
    client, server = transport_pair
    bytes = Random.new(1).bytes(3_000_000)
    assert_operator client.queue(bytes), :>=, bytes.bytesize
    assert_equal :wait_writable, client.flush_available
    assert_operator client.unsent_bytes, :>, 0
    sender = Thread.new do
      while (wanted = client.finish_available) != true
        wait_available(client, wanted)
      end
    end
    assert_equal bytes, read_all_available(server, 65_536, String.new)
    sender.join
    assert_equal 0, client.unsent_bytes
  end

  def test_what_a_loop_has_to_watch_for
    client, server = transport_pair
    assert_equal({ read: true, write: false }, client.wants)
    assert_nil client.wants(read: false)
    client.queue("x" * 3_000_000)
    client.flush_available
    assert_equal({ read: true, write: true }, client.wants)
    assert_equal({ read: false, write: true }, client.wants(read: false))
    server.close
    assert_raises(SystemCallError) { client.flush_available until client.unsent_bytes.zero? }
  end

  def test_unread_and_unsent_bytes_can_be_taken_to_another_process
    client, server = transport_pair
    client.write("a line\nand the rest")
    assert_equal "a line\n", server.gets
    assert_equal "and the rest", server.unread
    client.queue("not sent")
    assert_equal "not sent", client.unsent
  end

  def test_a_file_is_sent
    client, server = transport_pair
    Tempfile.create("gyre") do |file|
      bytes = Random.new(2).bytes(2_000_000)
      file.write(bytes)
      file.flush
      reader = Thread.new { server.read }
      assert_equal 1_999_990, client.write_file(file, 10, 3_000_000)
      client.close_write
      assert_equal bytes.byteslice(10..), reader.value
    end
  end

  def test_many_pieces_are_one_write
    client, server = transport_pair
    pieces = Array.new(100) { |index| "#{index}," }
    assert_equal pieces.sum(&:bytesize), client.write(*pieces)
    assert_equal pieces.join, server.read_partial
  end
end

class PlainTransportTest < Minitest::Test
  include TransportCases

  def secure? = false
end

class SecureTransportTest < Minitest::Test
  include TransportCases

  def secure? = true
end
