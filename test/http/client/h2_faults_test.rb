# frozen_string_literal: true

# The client's connections of HTTP/2 against a scripted server: refusals, resets, GOAWAY, limits of
# streams, and what breaks the protocol.

require "test_helper"
require "gyre/http/client"
require "http/client/h2_peer"

if GyreTest::H2Peer::AVAILABLE
  class H2FaultsOfServersTest < Minitest::Test
    include GyreTest::H2Peer

    H2 = GyreTest::H2
    Unanswered = Gyre::HTTP::Client::Unanswered

    def test_a_refused_stream_is_surely_not_processed
      refuse = lambda do |peer|
        peer.write(H2.rst_stream(peer.wait_frame(:headers).stream, :refused_stream))
        respond(peer, peer.wait_frame(:headers).stream)
        peer.failure
      end
      scripted(refuse) do |connection|
        refute_predicate assert_raises(Unanswered) { get(connection) }, :processed?
        assert_equal "hello", body_of(get(connection))
      end
    end

    def test_goaway_refuses_later_streams_and_lets_earlier_ones_finish
      leave = lambda do |peer|
        3.times { peer.wait_frame(:headers) }
        peer.write(H2.goaway(3))
        respond(peer, 1, "one")
        respond(peer, 3, "two")
        peer.failure
      end
      scripted(leave) do |connection, task|
        results = Array.new(3) { task.async { body_of(get(connection)) rescue $! } }.map(&:wait)
        assert_equal %w[one two], results.first(2)
        refute_predicate results.last, :processed?
        assert_equal [true, 0], [connection.closed?, connection.capacity]
        refute_predicate assert_raises(Unanswered) { get(connection) }, :processed?
      end
    end

    def test_goaway_refuses_a_request_whatever_follows_it
      script = lambda do |peer|
        2.times { peer.wait_frame(:headers) }
        peer.write(H2.headers(1, [%w[:status 200]]), H2.goaway(1))
        peer.socket.shutdown(:WR)
        peer.failure
      end
      scripted(script) do |connection, task|
        results = Array.new(2) { task.async { connection.request("POST", "/", HOST, "order", nil) rescue $! } }.map(&:wait)
        assert_equal 200, results.first.status
        refute_predicate results.last, :processed?
      end
    end

    def test_a_silent_connection_takes_no_request_until_it_answers
      gate = Queue.new
      script = lambda do |peer|
        respond(peer, peer.wait_frame(:headers).stream)
        peer.obliging = false
        ping = peer.wait_frame(:ping)
        gate.pop
        peer.write(H2.ping(ping.payload, ack: true))
        peer.failure
      end
      scripted(script) do |connection|
        assert_equal "hello", body_of(get(connection))
        assert_raises(Gyre::TimeoutError) { get(connection, "/", Gyre::Clock.now + 0.4) }
        assert_equal 0, connection.capacity
        gate << true
        eventually { connection.capacity == 100 }
      end
    end

    def test_a_connection_whose_window_is_used_up_takes_no_request
      sent = Queue.new
      script = lambda do |peer|
        ids = Array.new(30) { peer.wait_frame(:headers).stream }
        ids.each { |id| peer.write(H2.headers(id, [%w[:status 200]], end_stream: false)) }
        ids.each do |id|
          128.times do
            peer.synchronize if peer.window < 1_900_000
            break if peer.window < 1_900_000

            peer.spend(peer.stream(id), 16_000)
            peer.write(H2.data(id, "x" * 16_000, end_stream: false))
          end
        end
        sent << true
        peer.failure
      end
      scripted(script) do |connection, task|
        unread = Array.new(30) { task.async { get(connection) } }.map(&:wait)
        sent.pop
        eventually { connection.capacity.zero? }
        unread.each(&:cancel)
        assert_equal 100, connection.capacity
      end
    end

    # The loop computes meanwhile, and so has not seen the end.
    def test_a_kept_connection_that_ended_is_replaced_even_without_retries
      asked = Queue.new
      ended = false
      listener = TCPServer.new("127.0.0.1", 0)
      server = Thread.new do
        Array.new(2) do
          socket = listener.accept
          socket.read(H2::PREFACE.bytesize)
          peer = GyreTest::H2Client.new(self, socket, settings: nil)
          peer.write(H2.settings)
          respond(peer, peer.wait_frame(:headers).stream)
          asked.pop
          peer.write(H2.goaway(1))
          socket.shutdown(:WR)
          ended = true
          socket
        end.each(&:close)
      end
      client = Gyre::HTTP::Client.new("http://127.0.0.1:#{listener.addr[1]}", http2: true, proxy: nil, retries_limit: 0)
      Gyre.run do
        assert_equal "hello", client.get("/").body
        asked << true
        Thread.pass until ended
        assert_equal "hello", client.post("/", ["body"].each).body
        asked << true
      end
      server.join
    ensure
      server&.kill
      client&.close
      listener&.close
    end

    def test_a_reset_of_another_kind_is_the_callers_error
      reset = ->(peer) { peer.write(H2.rst_stream(peer.wait_frame(:headers).stream, :enhance_your_calm)) && peer.failure }
      scripted(reset) do |connection|
        error = assert_raises(Gyre::ProtocolError) { get(connection) }
        assert_match(/reset the stream: ENHANCE_YOUR_CALM\z/, error.message)
        refute_predicate connection, :closed?
      end
    end

    def test_a_reset_within_a_body_raises_after_the_bytes_that_came
      cut = lambda do |peer|
        respond(peer, peer.wait_frame(:headers).stream, "part", end_stream: false)
        peer.synchronize
        peer.write(H2.rst_stream(1, :internal_error))
        peer.failure
      end
      scripted(cut) do |connection|
        exchange = get(connection)
        assert_equal "part", exchange.read
        assert_match(/INTERNAL_ERROR/, assert_raises(Gyre::ProtocolError) { exchange.read }.message)
        assert_predicate exchange.tap(&:cancel), :over?
      end
    end

    def test_a_response_before_the_end_of_the_request_stops_the_upload
      early = lambda do |peer|
        peer.obliging = false
        id = peer.wait_frame(:headers).stream
        respond(peer, id, "enough", status: "413")
        peer.write(H2.rst_stream(id, :no_error))
        peer.failure
      end
      scripted(early) do |connection|
        pieces = 0
        exchange = connection.request("POST", "/", HOST, Enumerator.new { |out| loop { out << "x" * 10_000 && pieces += 1 } }, nil)
        assert_equal [413, "enough"], [exchange.status, body_of(exchange)]
        exchange = assert_raises(Gyre::TimeoutError) { connection.request("POST", "/", HOST, "x" * 1_000_000, Gyre::Clock.now + 0.05) }
        assert_match(/\Asend to /, exchange.message)
      end
    end

    def test_the_servers_limit_of_streams_holds
      limited = lambda do |peer|
        6.times do |index|
          peer.wait("a request") { peer.frames.count { |frame| frame.type == :headers } > index }
          peer.synchronize
          assert_equal index + 1, peer.frames.count { |frame| frame.type == :headers }
          respond(peer, index * 2 + 1, index.to_s)
        end
        peer.failure
      end
      scripted(limited, settings: { max_concurrent_streams: 1 }) do |connection, task|
        first = get(connection)
        assert_equal "0", body_of(first)
        assert_equal 1, connection.capacity
        bodies = Array.new(5) { task.async { body_of(get(connection)) } }.map(&:wait)
        assert_equal %w[1 2 3 4 5], bodies
      end
    end

    def test_the_end_of_the_connection_before_a_response_may_have_been_processed
      scripted(->(peer) { peer.wait_frame(:headers) }) do |connection|
        error = assert_raises(Unanswered) { get(connection) }
        assert_equal [true, EOFError], [error.processed?, error.error.class]
        assert_predicate connection, :closed?
      end
    end

    def test_the_end_of_the_connection_within_a_body_raises
      scripted(->(peer) { respond(peer, peer.wait_frame(:headers).stream, "part", end_stream: false) }) do |connection|
        exchange = get(connection)
        assert_equal "part", exchange.read
        assert_raises(EOFError) { exchange.read }
      end
    end

    def test_an_idle_connection_that_the_server_ends_is_closed
      scripted(->(peer) { respond(peer, peer.wait_frame(:headers).stream) && peer.synchronize }) do |connection|
        assert_equal "hello", body_of(get(connection))
        eventually { connection.closed? }
        refute_predicate assert_raises(Unanswered) { get(connection) }, :processed?
      end
    end

    def test_a_loop_that_computes_sees_that_the_server_has_ended_it
      ended = false
      finish = ->(peer) { respond(peer, peer.wait_frame(:headers).stream) && peer.socket.shutdown(:WR) && (ended = true) }
      scripted(finish) do |connection|
        assert_equal "hello", body_of(get(connection))
        Thread.pass until ended
        refute_predicate assert_raises(Unanswered) { get(connection) }, :processed?
      end
    end

    def test_interim_responses_and_heads_are_limited
      flood = lambda do |peer|
        id = peer.wait_frame(:headers).stream
        20.times { peer.write(H2.headers(id, [%w[:status 103], %w[link x]], end_stream: false)) }
        id = peer.wait_frame(:headers).stream
        peer.write(H2.headers(id, [%w[:status 200], *Array.new(200) { |index| ["x-#{index}", "y"] }], end_stream: true))
        id = peer.wait_frame(:headers).stream
        peer.write(H2.headers(id, [%w[:status 200]] + [["x", "y" * 3000]] * 5, end_stream: true))
        id = peer.wait_frame(:headers).stream
        respond(peer, id)
        peer.failure
      end
      scripted(flood, header_bytes_limit: 10_000) do |connection|
        seen = []
        assert_match(/more than 16 interim/, assert_raises(Gyre::ProtocolError) { get(connection) { |status, _| seen << status } }.message)
        assert_equal [103] * 16, seen
        assert_match(/too many header fields/, assert_raises(Gyre::ProtocolError) { get(connection) }.message)
        assert_match(/too long in all/, assert_raises(Gyre::ProtocolError) { get(connection) }.message)
        assert_equal "hello", body_of(get(connection))
        assert_equal [0, 0, 0, 0], connection.held
      end
    end

    def test_broken_responses_fail_their_stream_only
      broken = lambda do |peer|
        [[%w[:status 20x]], [%w[:status 200], %w[A b]], [%w[:status 200], %w[connection close]], [%w[x y]], [%w[:status 200], %w[content-length 3]],
         [%w[:status 101]], [%w[:status 200], ["x", "a\nb"]]].each do |fields|
          id = peer.wait_frame(:headers).stream
          peer.write(H2.headers(id, fields, end_stream: false), H2.data(id, "hello"))
        end
        respond(peer, peer.wait_frame(:headers).stream)
        peer.failure
      end
      scripted(broken) do |connection|
        7.times { assert_match(/breaks HTTP|too long/, assert_raises(Gyre::ProtocolError) { body_of(get(connection)) }.message) }
        assert_equal "hello", body_of(get(connection))
      end
    end

    # Each ends the connection: a frame of the server, after the head of a request.
    BREAKS = {
      "a push" => H2.push_promise(1, 2, H2.request),
      "a window beyond 2^31-1" => H2.window_update(0, H2::WINDOW_MOST),
      "DATA of an idle stream" => H2.data(7, "x"),
      "a frame that is too long" => H2.data(1, "x" * 20_000),
      "a PING of 7 bytes" => H2.ping("x" * 7),
      "an undecodable head" => H2.headers(1, "\xff\xff\xff\xff\xff\xff\xff".b),
      "bytes of HTTP/1.1" => "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n",
      "a flood of SETTINGS" => H2.settings * 20_000,
      "a flood of empty DATA" => H2.headers(1, [%w[:status 200]], end_stream: false) + H2.data(1, "", end_stream: false) * 20_000,
      "endless CONTINUATION" => H2.headers(1, "", end_stream: false, end_headers: false) +
                                H2.continuation(1, "\0\1x\x7f\x81\x03#{"y" * 512}".b, end_headers: false) * 5000
    }.freeze

    BREAKS.each do |name, bytes|
      define_method("test_#{name}_ends_the_connection".tr(" ^/.-", "_")) do
        script = lambda do |peer|
          peer.wait_frame(:headers)
          peer.write(bytes)
          refute_equal :no_error, peer.failure
        end
        scripted(script) do |connection|
          error = assert_raises(Unanswered, Gyre::ProtocolError) { body_of(get(connection)) }
          error = error.error if error.is_a?(Unanswered)
          assert_kind_of Gyre::ProtocolError, error
          assert_predicate connection, :closed?
        end
      end
    end

    def test_a_server_that_takes_no_bytes_is_limited_by_time
      scripted(->(peer) { (peer.obliging = false) || peer.failure }, write_timeout_s: 0.05) do |connection|
        ["x" * 200_000, ["x" * 60_000] * 10].each do |body|
          error = assert_raises(Gyre::TimeoutError) { connection.request("POST", "/", HOST, body, nil) }
          assert_match(/\Asend to .*: nothing for 0\.05 s/, error.message)
        end
      end
    end

    def test_the_limits_of_head_and_read_count
      script = lambda do |peer|
        peer.wait_frame(:headers)
        while (frame = peer.next_frame)
          respond(peer, frame.stream, "part", end_stream: false) if frame.type == :headers
        end
      end
      scripted(script, head_timeout_s: 0.05, read_timeout_s: 0.05) do |connection|
        error = assert_raises(Gyre::TimeoutError) { get(connection) }
        assert_match(/\Await for the response of .*: nothing for 0\.05 s/, error.message)
        exchange = eventually(what: "a response in time") do
          get(connection)
        rescue Gyre::TimeoutError
          nil # the machine stood still
        end
        assert_equal "part", exchange.read
        assert_match(/\Areceive from .*: nothing for 0\.05 s/, assert_raises(Gyre::TimeoutError) { exchange.read }.message)
      end
    end

    def test_frames_that_come_byte_by_byte
      script = lambda do |peer|
        id = peer.wait_frame(:headers).stream
        peer.socket.setsockopt(:TCP, :NODELAY, true)
        block = GyreTest::HPACK.encode([%w[:status 200], *Array.new(5) { |index| ["x-#{index}", "y"] }])
        bytes = H2.headers(id, block[0, 5], end_stream: false, end_headers: false) + H2.continuation(id, block[5..]) + H2.data(id, "hello", pad: 3)
        bytes.each_char { |byte| peer.write(byte) }
        peer.failure
      end
      scripted(script) { |connection| assert_equal "hello", body_of(get(connection)) }
    end
  end
end
