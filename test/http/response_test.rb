# frozen_string_literal: true

# The slow kinds of response on an exchange that has no socket; over real sockets they are in
# test/contracts/http_contract_rack_test.rb.

require "test_helper"
require "stringio"
require "http/fake_exchange"
require "gyre/http"

class HTTPResponseTest < Minitest::Test
  def deliver(body, status: 200, headers: {}, env: {}, exchange: GyreTest::FakeExchange.new)
    env = { "REQUEST_METHOD" => "GET", "rack.input" => Gyre::HTTP::Input::EMPTY }.merge(env)
    Gyre::HTTP::Response.new(exchange, env, status, headers, body).deliver
    exchange.calls
  end

  def test_each_is_chunked_unless_the_app_gives_the_length
    assert_equal [[:write_head, 200, {}, :chunked], [:write_body, "a"], [:write_body, "b"], [:finish_body]], deliver(%w[a b].each)
    assert_equal [[:write_head, 200, { "content-length" => "1" }, 1], [:write_body, "a"], [:finish_body]],
                 deliver(["a"].each, headers: { "Content-Length" => "1" })
  end

  def test_each_wins_over_call
    body = ["a"].each
    def body.call(_stream) = raise("called")
    assert_includes deliver(body), [:write_body, "a"]
  end

  def test_an_array_that_the_fast_path_refused_has_its_length
    assert_equal [[:write_head, 200, {}, 3], [:write_body, "a"], [:write_body, "bc"], [:finish_body]], deliver(%w[a bc])
  end

  def test_the_fast_path_gets_a_second_chance_with_clean_headers
    exchange = GyreTest::FakeExchange.new
    exchange.fast = true
    assert_equal [[:write_response, 200, { "a" => "5" }, ["x"]]],
                 deliver(["x"], headers: { "A" => 5, "transfer-encoding" => "identity", "rack.x" => 1 }, exchange: exchange)
  end

  def test_nothing_of_a_body_that_must_not_go_out_is_made
    exchange = GyreTest::FakeExchange.new
    exchange.framing = nil
    body = Object.new
    body.define_singleton_method(:each) { raise "each was called" }
    assert_equal [:write_head, :finish_body], deliver(body, exchange: exchange).map(&:first)
    assert_equal [:write_head, :finish_body] * 2, deliver(->(_stream) { raise "called" }, exchange: exchange).map(&:first)
  end

  def test_a_length_that_is_wrong_is_found_before_the_head_where_it_can_be
    exchange = GyreTest::FakeExchange.new
    assert_raises(Gyre::HTTP::LengthError) { deliver(["abc"], headers: { "content-length" => "2" }, exchange: exchange) }
    assert_empty exchange.calls
    ["x", "-1", "1 ", "1" * 19, %w[1 1]].each do |length|
      assert_raises(ArgumentError, length) { deliver(["a"].each, headers: { "content-length" => length }, exchange: exchange) }
    end
    assert_empty exchange.calls
  end

  def test_a_body_never_exceeds_its_length
    exchange = GyreTest::FakeExchange.new
    assert_raises(Gyre::HTTP::LengthError) { deliver(%w[abc de].each, headers: { "content-length" => "4" }, exchange: exchange) }
    assert_equal [[:write_body, "abc"], [:write_body, "d"]], exchange.calls.last(2)
    assert_raises(Gyre::HTTP::LengthError) { deliver(%w[abc].each, headers: { "content-length" => "4" }) }
  end

  def test_a_file_goes_by_its_path_if_its_size_is_right
    body = ["x"].each
    path = __FILE__
    body.define_singleton_method(:to_path) { path }
    size = File.size(__FILE__)
    assert_equal [[:leave_place], [:write_head, 200, {}, size], [:write_file, __FILE__, 0, size], [:finish_body]], deliver(body)
    assert_includes deliver(body, headers: { "content-length" => "1" }), [:write_body, "x"]
    path = "/does/not/exist"
    assert_includes deliver(body), [:write_body, "x"]
  end

  def test_a_stream_gets_the_input_and_is_closed_at_the_end
    exchange = GyreTest::FakeExchange.new
    exchange.input = %w[ab c]
    calls = deliver(->(stream) { stream << stream.read }, env: { "rack.input" => :wrapped }, exchange: exchange)
    assert_equal [[:write_head, 200, {}, :chunked], [:write_body, "abc"], [:finish_body]], calls
  end

  def test_a_client_that_waits_for_100_gets_it_before_the_head_of_a_stream
    exchange = GyreTest::FakeExchange.new
    exchange.expects_continue = true
    assert_equal %i[write_interim write_head finish_body], deliver(:close.to_proc, exchange: exchange).map(&:first)
    refuses = GyreTest::FakeExchange.new
    refuses.expects_continue = true
    assert_equal %i[write_head finish_body], deliver(:close.to_proc, status: 413, exchange: refuses).map(&:first)
  end

  def test_a_partial_hijack_frames_by_itself_or_by_the_end
    call = ->(io) { io.write("raw") }
    assert_equal [[:write_head, 200, {}, :close], [:leave_place], [:hijack]], deliver([], headers: { "rack.hijack" => call })
    assert_equal [:write_head, 200, { "transfer-encoding" => "chunked" }, :raw],
                 deliver([], headers: { "rack.hijack" => call, "transfer-encoding" => "chunked" }).first
  end

  def test_a_partial_hijack_that_raises_closes_the_socket
    io = nil
    assert_raises(RuntimeError) do
      deliver([], headers: { "rack.hijack" => lambda { |socket|
        io = socket
        raise "trouble"
      } })
    end
    assert io.closed?
  end

  def test_an_upgrade_is_a_101_in_which_nothing_is_framed
    headers = { "rack.protocol" => "echo", "content-length" => "3" }
    calls = deliver(->(io) { io.write("raw") }, headers: headers, env: { "rack.protocol" => ["echo"] })
    assert_equal [[:write_head, 101, { "upgrade" => "echo", "connection" => "upgrade" }, :raw], [:leave_place], [:hijack]], calls
    calls = deliver([], status: 101, headers: { "upgrade" => "x" })
    assert_equal [:write_head, 101, { "upgrade" => "x", "connection" => "upgrade" }, :raw], calls.first
    assert_raises(ArgumentError) { deliver([], headers: { "rack.protocol" => "echo" }) }
    assert_raises(ArgumentError) { deliver([], status: 101) }
  end

  def test_an_invalid_response_is_refused_before_anything_is_sent
    exchange = GyreTest::FakeExchange.new
    assert_raises(TypeError) { deliver(5, exchange: exchange) }
    assert_raises(TypeError) { deliver([:a], exchange: exchange) }
    assert_raises(TypeError) { deliver([], headers: nil, exchange: exchange) }
    [0, 99, 100, 103, 1000, nil, "x"].each do |status|
      assert_raises(ArgumentError) { deliver([], status: status, exchange: exchange) }
    end
    assert_empty exchange.calls
  end
end
