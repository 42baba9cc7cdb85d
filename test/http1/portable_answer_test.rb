# frozen_string_literal: true

# How many writes an answer takes, which no client can see. What it says is in test/contracts/http1_contract_*_test.rb.

require "test_helper"
require "tempfile"
require "gyre/http1/env"
require "gyre/http1/portable_connection"

class HTTP1PortableAnswerTest < Minitest::Test
  # A connection whose transport notes each write; its acceptor never drains.
  class Noted < Gyre::HTTP1::PortableConnection
    attr_reader :writes
    attr_accessor :error

    def initialize # rubocop:disable Lint/MissingSuper
      @writes = writes = []
      @transport = Object.new
      noted = self
      @transport.define_singleton_method(:write) { |bytes| noted.error ? raise(noted.error) : writes << bytes.dup }
      @acceptor = Object.new
      def @acceptor.draining? = false
      @limits = Gyre::HTTP1::Limits.new
      @keep_alive = true
      @head_sent = false
      @body_bytes_sent = 0
    end

    def close
      @state = :closed
    end
  end

  def setup
    @connection = Noted.new
  end

  def test_a_small_answer_is_one_write
    assert_equal true, @connection.write_response(200, {}, %w[a b c])
    assert_equal 1, @connection.writes.size
    assert @connection.writes.first.end_with?("\r\n\r\nabc")
    assert_equal [3, true, true], [@connection.body_bytes_sent, @connection.head_sent?, @connection.keep_alive?]
  end

  def test_a_large_part_is_written_by_itself
    large = "x" * 100_000
    @connection.write_response(200, {}, ["a", large, "b", "c"])
    assert_equal [large, "bc"], @connection.writes.last(2)
    assert_equal 3, @connection.writes.size
    assert_equal 100_003, @connection.body_bytes_sent
  end

  def test_a_chunk_is_one_write
    assert_equal :chunked, @connection.write_head(200, {}, :chunked)
    assert_equal 0, @connection.write_body("")
    assert_equal 20, @connection.write_body("x" * 20)
    @connection.finish_body
    @connection.finish_body
    assert_equal ["14\r\n#{"x" * 20}\r\n", "0\r\n\r\n"], @connection.writes.drop(1)
  end

  def test_what_the_fast_path_does_not_know_is_left_to_response
    [[200.0, {}, []], [101, {}, []], [600, {}, []], [200, nil, []], [200, {}, [1]], [200, {}, "a"], [200, { a: "b" }, []], [200, { "a" => 1 }, []],
     [200, { "a" => [1] }, []], [200, { "Rack.Hijack" => "x" }, []], [200, { "transfer-encoding" => "x" }, []],
     [200, { "Content-Length" => "2" }, ["a"]]].each do |answer|
      assert_equal false, @connection.write_response(*answer), answer.inspect
    end
    assert_empty @connection.writes
    refute @connection.head_sent?
  end

  def test_nothing_is_sent_of_a_head_that_must_not_be
    assert_raises(ArgumentError) { @connection.write_response(200, { "a" => "\n" }, []) }
    assert_raises(ArgumentError) { @connection.write_head(200, { "a" => "\n" }, 5) }
    assert_raises(ArgumentError) { @connection.write_interim(103, { "a" => "\n" }) }
    assert_empty @connection.writes
    refute @connection.head_sent?
  end

  def test_a_file_is_read_in_pieces_up_to_its_end
    Tempfile.create("gyre") do |file|
      file.write("0123456789" * 60_000)
      file.flush
      assert_equal 599_990, @connection.write_file(file, 5, 599_990)
      assert_equal 3, @connection.writes.size
      assert_equal 10, @connection.write_file(file, 599_990, 20)
      assert_equal 0, @connection.write_file(file, 0, 0)
    end
  end

  def test_an_error_of_the_network_ends_the_connection
    connection = @connection
    connection.error = Errno::ECONNRESET
    assert_raises(Errno::ECONNRESET) { connection.write_response(200, {}, ["a"]) }
    assert connection.closed?
    assert_raises(Errno::EPIPE) { connection.write_body("a") && connection.write_head(200, {}, 1) }
  end
end
