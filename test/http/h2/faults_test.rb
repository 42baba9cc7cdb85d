# frozen_string_literal: true

# One HTTP/2 conversation, and what can happen to it on its way: cut after each byte of each
# direction, in pieces of one byte, split at each byte; streams that are reset while they go, in
# both directions, and clients whose windows stay closed. Only the one at fault notices, and nothing
# is left behind.

require "test_helper"
require "support/engines"
require "http/h2/serving"

module H2Faults
  include GyreTest::H2Serving

  H2 = GyreTest::H2
  HPACK = GyreTest::HPACK

  # What a client of the conversation sends: all kinds of frames, on four streams.
  def words
    scheme = tls? ? "https" : "http"
    long = HPACK.encode(H2.request("GET", "/pieces", scheme: scheme, x: "y" * 20))
    [
      H2::PREFACE, H2.settings(initial_window_size: 100), H2.headers(1, H2.request("GET", "/", scheme: scheme)),
      H2.headers(3, H2.request("POST", "/echo", scheme: scheme, content_length: 9), end_stream: false),
      H2.data(3, "one ", end_stream: false), H2.ping("conversa"), H2.headers(5, long[0, 40], end_headers: false),
      H2.continuation(5, long[40..]), H2.data(3, "three", pad: 3), H2.window_update(0, 1000), H2.priority(7, 5),
      H2.headers(7, H2.request("POST", "/echo", scheme: scheme), end_stream: false), H2.data(7, "cut short", end_stream: false),
      H2.rst_stream(7), H2.goaway
    ].join
  end

  SEVERAL = lambda do |env|
    case env["PATH_INFO"]
    when "/echo" then [200, {}, [env["rack.input"].read]]
    when "/pieces" then [200, {}, %w[one two three].each]
    else [200, {}, ["hello"]]
    end
  end

  def assert_answered(client)
    assert_equal %w[hello one\ three onetwothree], ([1, 3, 5].map { |id| client.stream(id).response.body })
  end

  # Serves, with one client more that is served after each fault.
  def beside(&block)
    serve(SEVERAL) do |served|
      bystander = connect(served)
      assert_equal "hello", bystander.get.body
      block.call(served)
      assert_equal "hello", bystander.get.body
      eventually(what: "the end of the cut connections") { served.stats.values_at(:connections, :running) == [1, 0] }
    end
  end

  def test_the_conversation_in_pieces_of_one_byte_and_split_at_each
    beside do |served|
      client = connect(served, settings: nil)
      words.each_char { |byte| client.write(byte) }
      assert_answered client
      client.close
      (1...words.bytesize).step(tls? ? 7 : 1) do |at|
        client = connect(served, settings: nil).write(words.byteslice(0, at))
        2.times { served.on_loop {} } # a turn in which the first part was read
        assert_answered client.write(words.byteslice(at..))
        client.close
      end
    end
  end

  def test_the_conversation_cut_after_each_byte_of_the_client
    beside do |served|
      (0..words.bytesize).each do |after|
        faults = tls? ? [%i[fin close reset][after % 3]] : %i[fin close reset]
        faults.each do |fault|
          client = connect(served, settings: nil).write(words.byteslice(0, after))
          case fault
          when :fin
            client.finish
            client.failure # what comes until the end
          when :close then client.close
          when :reset then client.reset
          end
          client.close
        end
      end
    end
  end

  def test_the_conversation_cut_after_each_byte_of_the_server
    beside do |served|
      length = connect(served, settings: nil).write(words.delete_suffix(H2.goaway)).then do |client|
        assert_answered client
        client.frames.sum { |frame| H2::HEADER_BYTES + frame.length }.tap { client.close }
      end
      (0..length).step(tls? ? 3 : 1) do |after|
        client = connect(served, settings: nil).write(words)
        client.socket.readpartial([after, 1].max)
        after.odd? ? client.close : client.reset
      end
    end
  end

  # --- resets ---

  def test_a_stream_that_is_reset_while_its_body_is_sent
    failures = Thread::Queue.new
    closed = Thread::Queue.new
    body = lambda do |stream|
      loop { stream.write("x" * 10_000) }
    rescue SystemCallError, IOError => error
      failures << error.class
      raise
    ensure
      closed << true
    end
    serve(->(env) { [200, {}, env["PATH_INFO"] == "/" ? ["hello"] : body] }) do |served|
      client = connect(served)
      10.times do |number|
        stream = client.open("GET /stream", end_stream: true)
        stream.take(30_000 * number + 1)
        stream.reset
        assert_equal Errno::EPIPE, failures.pop
        assert closed.pop
        assert_equal "hello", client.get.body
      end
      eventually { served.stats[:running].zero? }
    end
  end

  def test_a_stream_that_is_reset_while_its_body_is_read
    begun = Thread::Queue.new
    failures = Thread::Queue.new
    app = lambda do |env|
      begun << env["PATH_INFO"]
      env["rack.input"].read
      [200, {}, ["hello"]]
    rescue Gyre::HTTP::RequestCut => error
      failures << error
      raise
    end
    serve(app) do |served|
      client = connect(served)
      10.times do |number|
        stream = client.open("POST /").write("x" * 1000 * number)
        assert_equal "/", begun.pop
        stream.reset
        assert_kind_of Gyre::HTTP::RequestCut, failures.pop
        assert_equal ["hello", "/"], [client.get.body, begun.pop]
      end
      eventually { served.stats[:running].zero? }
    end
  end

  def test_a_body_that_raises_resets_its_stream_only
    app = lambda do |env|
      [200, {}, env["PATH_INFO"] == "/" ? ["hello"] : Enumerator.new { |parts| parts << "begun" && raise("in the body") }]
    end
    serve(app) do |served|
      client = connect(served)
      kept = client.open("GET /raise", end_stream: true)
      assert_equal :internal_error, kept.failure
      assert_equal "hello", client.get.body
      expect_errors(served, /in the body/)
    end
  end

  # What is not read counts as read, or the connection's window would be used up.
  def test_bodies_that_no_app_reads_use_up_no_window
    serve(->(_env) { [200, {}, ["hello"]] }) do |served|
      client = connect(served)
      40.times do
        stream = client.open("POST /").write("x" * 60_000)
        assert_equal "hello", stream.finish.response.body
      end
      20.times { client.open("POST /").write("x" * 60_000).reset }
      assert_equal "hello", client.post("/", "x" * 200_000).body
    end
  end

  # --- closed windows ---

  def test_a_client_that_never_opens_its_window
    closed = Thread::Queue.new
    body = lambda do |stream|
      stream.write("x" * 10_000_000)
    ensure
      closed << true
    end
    serve(->(env) { [200, {}, env["PATH_INFO"] == "/" ? [] : body] }, limits: { write_timeout_s: 0.1 }) do |served|
      client = connect(served, settings: { initial_window_size: 0 })
      stream = client.open("GET /stream", end_stream: true)
      assert_equal 200, stream.head.status
      assert closed.pop
      client.wait { client.frames.any? { |frame| %i[rst_stream goaway].include?(frame.type) } }
      eventually { served.stats[:running].zero? }
      assert_equal 200, get(served).status
    end
  end

  def test_a_window_that_opens_late_lets_the_rest_out
    body = Random.new(1).bytes(300_000)
    serve(->(_env) { [200, {}, [body]] }) do |served|
      client = connect(served, settings: { initial_window_size: 10 })
      client.obliging = false
      stream = client.open("GET /", end_stream: true)
      received = stream.take(10)
      client.synchronize
      refute_predicate stream, :over?
      client.write(H2.window_update(0, 1_000_000), H2.window_update(1, 7))
      received << stream.take(7)
      client.write(H2.settings(initial_window_size: 500_000))
      assert_equal body, received + stream.response.body
    end
  end

  # --- a stream whose request does not come ---

  def test_a_head_that_does_not_come_in_time_ends_its_connection
    serve(SEVERAL, limits: { head_timeout_s: 0.05 }) do |served|
      client = connect(served).greet
      client.write(H2.headers(1, HPACK.encode(H2.request)[0, 9], end_headers: false))
      client.failure
      client.close
      eventually { served.stats[:connections].zero? }
      assert_equal 200, get(served).status
    end
  end

  def test_a_head_that_was_malformed_is_over
    serve(SEVERAL, limits: { head_timeout_s: 0.05 }) do |served|
      client = connect(served)
      [%w[connection close], %w[X y]].each do |field|
        stream = client.open_fields(H2.request + [field])
        client.wait { stream.over? }
        sleep 0.1 # longer than the limit
        assert_equal "hello", client.get.body
      end
    end
  end

  def test_a_preface_that_does_not_come_in_time_ends_its_connection
    serve(SEVERAL, limits: { head_timeout_s: 0.05, first_byte_timeout_s: 0.05 }) do |served|
      ["", "PRI", H2::PREFACE[0, 20], H2::PREFACE, H2::PREFACE + H2.settings[0, 5]].each do |part|
        client = connect(served, settings: nil).write(part)
        client.socket.read
        client.close
      end
      eventually { served.stats[:connections].zero? }
    end
  end

  def test_a_body_that_stops_ends_its_stream_only
    serve(SEVERAL, limits: { read_timeout_s: 0.05 }) do |served|
      client = connect(served)
      stream = client.open("POST /echo").write("begun")
      client.wait { stream.over? }
      assert_includes [408, nil], stream.status
      assert_equal "hello", client.get.body
    end
  end

  def test_an_idle_connection_is_ended_by_goaway
    serve(SEVERAL, limits: { keep_alive_timeout_s: 0.05 }) do |served|
      client = connect(served)
      assert_equal "hello", client.get.body
      assert_equal :no_error, client.failure
      eventually { served.stats[:connections].zero? }
    end
  end
end

GyreTest::Engines.test_case("H2FaultsTest", backends: GyreTest::H2Serving::BACKENDS) { include H2Faults }
GyreTest::Engines.test_case("H2FaultsOverTLSTest", backends: GyreTest::H2Serving::BACKENDS.first(1)) do
  include H2Faults

  def tls? = true
end
