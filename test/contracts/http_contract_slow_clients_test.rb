# frozen_string_literal: true

# Slow clients (ext/gyre/http/admission.h): a request holds a place while the app works, not
# while its client sends or takes; what a server holds of all clients together is bounded.

require "test_helper"
require "tmpdir"
require "http/contract"
require "gyre/http/static"

module HTTPSlowClientsContract
  include GyreTest::HTTPServing

  ECHO = ->(env) { [200, {}, [env["rack.input"].read]] }
  ONE_PLACE = { requests_limit: 1, queue_limit: 0 }

  # A client that takes nothing of its response for now.
  def stalled(served, line)
    client = http2? ? connect(served, settings: { initial_window_size: 1 }) : connect(served)
    client.request(line)
  end

  # How the server ends a response that has begun.
  def cut?(client) = http2? ? client.reset? : client.rest && true

  def test_a_body_that_has_not_come_holds_no_place
    calls = 0
    serve(->(env) { (calls += 1) && ECHO.call(env) }, limits: ONE_PLACE) do |served|
      slow = connect(served).request("POST / HTTP/1.1", "a", content_length: 3)
      3.times { assert_equal 200, get(served).status }
      assert_equal [3, 0], [calls, served.stats[:running]]
      slow.write("b")
      assert_equal 200, get(served).status
      slow.write("c")
      assert_equal [200, "abc"], [(response = slow.response).status, response.body]
      assert_equal 200, slow.get.status
    end
  end

  def test_a_client_that_waits_for_a_100_gets_it_before_there_is_a_place
    serve(ECHO, limits: ONE_PLACE) do |served|
      client = connect(served).request("POST / HTTP/1.1", content_length: 2, expect: "100-continue")
      assert_equal 100, client.response(interim: true).status
      assert_equal 200, get(served).status
      assert_equal "ab", client.write("ab").response.body
    end
  end

  def test_a_body_that_does_not_come_is_refused_without_the_app
    limits = { **ONE_PLACE, read_timeout_s: 0.2 }
    calls = 0
    serve(->(env) { (calls += 1) && ECHO.call(env) }, limits: limits, log_accesses: true) do |served|
      response = connect(served).request("POST /late HTTP/1.1", "a", content_length: 3).response
      assert_equal 408, response.status
      assert_equal 0, calls
      eventually { served.accesses.map { |access| access[1] } == [408] }
      assert_equal 200, get(served).status
    end
  end

  def test_a_body_that_comes_too_slowly_is_refused_however_steadily_it_comes
    limits = { **ONE_PLACE, body_grace_timeout_s: 0.2, body_rate_bytes_limit: 100_000 }
    serve(ECHO, limits: limits) do |served|
      client = connect(served).request("POST / HTTP/1.1", "a", content_length: 10_000)
      writer = Thread.new { loop { client.write("b") && sleep(0.01) } }
      writer.report_on_exception = false
      assert_equal 408, client.response.status
    ensure
      writer&.kill&.join
    end
  end

  def test_a_longer_body_takes_its_place_and_has_a_higher_rate_then
    limits = { **ONE_PLACE, body_ahead_bytes_limit: 4, body_grace_timeout_s: 0.3, body_rate_bytes_limit: 1000 }
    begun = Thread::Queue.new
    app = lambda do |env|
      begun << true
      ECHO.call(env)
    end
    serve(app, limits: limits) do |served|
      client = connect(served).request("POST / HTTP/1.1", "abcd", content_length: 100_000)
      begun.pop
      assert_equal 503, get(served).status
      writer = Thread.new { loop { client.write("e" * 20) && sleep(0.01) } } # less than 16,000 bytes a second
      writer.report_on_exception = false
      assert_equal 408, client.response.status
    ensure
      writer&.kill&.join
    end
  end

  def test_clients_that_leave_before_their_body_is_there_leave_nothing
    serve(ECHO, limits: ONE_PLACE) do |served|
      clients = Array.new(3) { connect(served).request("POST / HTTP/1.1", "a", content_length: 3) }
      eventually { served.stats[:connections] == 3 }
      clients[0].close
      clients[1].reset
      clients[2].close
      eventually { served.stats.values_at(:connections, :running, :waiting) == [0, 0, 0] }
      assert_equal 200, get(served).status
      assert_equal [0, 0], served.used.values_at(:input, :places)
    end
  end

  def test_bodies_hold_so_much_memory_in_all
    serve(ECHO, limits: { requests_limit: 9, input_bytes_limit: 150_000 }) do |served|
      held = connect(served).request("POST / HTTP/1.1", "a" * 20_000, content_length: 30_000)
      eventually { served.used[:input] >= 20_000 }
      more = connect(served).request("POST / HTTP/1.1", "a" * 200_000, content_length: 250_000)
      assert_equal 503, more.response.status
      assert_equal 30_000, held.write("b" * 10_000).response.body.bytesize
      eventually { served.used[:input].zero? }
    end
  end

  def test_a_whole_response_leaves_its_place_to_others
    serve(->(env) { [200, {}, ["x" * (env["PATH_INFO"] == "/large" ? 8_000_000 : 2)]] }, limits: ONE_PLACE, buffers: 4096) do |served|
      slow = stalled(served, "GET /large HTTP/1.1")
      eventually(what: "a place") { get(served).status == 200 }
      assert_operator served.used[:output], :>, 1_000_000
      slow.close
      eventually { served.used.values_at(:output, :places) == [0, 0] }
    end
  end

  def test_beyond_the_memory_for_responses_their_places_are_kept
    limits = { **ONE_PLACE, output_bytes_limit: 1000 }
    serve(->(env) { [200, {}, ["x" * (env["PATH_INFO"] == "/large" ? 8_000_000 : 2)]] }, limits: limits, buffers: 4096) do |served|
      slow = stalled(served, "GET /large HTTP/1.1")
      eventually { served.used[:output] > 1000 }
      assert_equal 503, get(served).status
      slow.close
      eventually(what: "the place") { get(served).status == 200 }
    end
  end

  def test_a_client_that_takes_too_little_of_its_response_is_cut_however_steadily_it_takes
    limits = { write_timeout_s: 0.3, response_rate_bytes_limit: 100_000_000 }
    pieces = Enumerator.new { |parts| loop { parts << ("x" * 65_536) } }
    serve(->(_env) { [200, {}, pieces] }, limits: limits, buffers: 4096) do |served|
      client = connect(served).request
      client.take_through("\r\n\r\n")
      taken = 0
      cut = false
      until cut || taken > 4_000_000
        sleep 0.005
        cut = begin
          client.chunk.nil?
        rescue Minitest::Assertion
          true
        end
        taken += 1
      end
      assert cut
      eventually { served.stats[:running].zero? }
    end
  end

  def test_so_many_files_are_sent_at_a_time
    Dir.mktmpdir do |folder|
      File.write("#{folder}/large", "x" * 8_000_000)
      root = Gyre::HTTP::Files::Root.new(folder)
      app = Gyre::HTTP::Static.new(->(_env) { [200, {}, ["app"]] }, root)
      serve(app, limits: { files_limit: 2 }, buffers: 4096) do |served|
        slow = Array.new(2) { stalled(served, "GET /large HTTP/1.1") }
        eventually { served.used[:files] == 2 }
        assert_equal 503, get(served, "GET /large HTTP/1.1").status
        assert_equal "app", get(served).body
        slow.first.close
        eventually { get(served, "HEAD /large HTTP/1.1").status == 200 && served.used[:files] == 1 }
        slow.last.close
        eventually { served.used[:files].zero? }
      end
    ensure
      root&.close
    end
  end

  # Chunks, pipelined requests and half-closed connections.
  module HTTP1
    def test_chunks_are_awaited_to_the_last_byte_of_their_trailers
      app = ->(env) { [200, {}, [env["rack.input"].read, env["gyre.trailers"].call["x"].to_s]] }
      serve(app, limits: { requests_limit: 1, queue_limit: 0 }) do |served|
        { "3\r\nabc\r\n2;e=1\r\nde\r\n0\r\n\r\n" => "abcde", "1\r\na\r\n0\r\nx: y\r\n\r\n" => "ay" }.each do |chunks, body|
          slow = connect(served).write("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
          chunks.chars.each_with_index do |byte, index|
            assert_equal 200, get(served, "POST / HTTP/1.1", "0\r\n\r\n", transfer_encoding: "chunked").status if (index % 4).zero?
            slow.write(byte)
          end
          assert_equal body, slow.response.body
        end
        wrong = connect(served).write("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n")
        assert_equal 400, wrong.response.status
      end
    end

    def test_a_pipelined_request_awaits_its_body_without_a_place
      serve(->(env) { [200, {}, [env["rack.input"].read]] }, limits: { requests_limit: 1, queue_limit: 0 }) do |served|
        client = connect(served).write("GET / HTTP/1.1\r\nhost: a\r\n\r\nPOST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\na")
        assert_equal "", client.response.body
        assert_equal 200, get(served).status
        assert_equal "ab", client.write("bGET / HTTP/1.1\r\nhost: a\r\n\r\n").response.body
        assert_equal "", client.response.body
      end
    end

    def test_a_client_that_ends_its_side_before_the_body_is_there_gets_400
      return if tls? # its end is the connection's

      serve(->(_env) { flunk }, limits: { requests_limit: 1 }) do |served|
        client = connect(served).request("POST / HTTP/1.1", "a", content_length: 3)
        eventually { served.used[:input].positive? }
        client.socket.shutdown(:WR)
        assert_equal 400, client.response.status
      end
    end
  end

  # Flow control.
  module HTTP2
    # Else bodies of which each has come in part would wait for each other.
    def test_bodies_that_fill_the_window_of_their_connection_are_read_one_after_the_other
      limits = { requests_limit: 1, stream_window_bytes_limit: 262_144, connection_window_bytes_limit: 1_048_576 }
      serve(->(env) { [200, {}, [env["rack.input"].read.bytesize.to_s]] }, limits: limits) do |served|
        h2 = connect(served).h2
        streams = Array.new(16) { h2.open("POST / HTTP/1.1", content_length: 100_000) }
        streams.each { |stream| stream.write("x" * 65_000) }
        streams.each { |stream| stream.write("x" * 35_000, end_stream: true) }
        assert_equal ["100000"], streams.map { |stream| stream.response.body }.uniq
      end
    end

    # A byte for each stream now and then is progress, but not enough.
    def test_what_is_left_of_responses_has_a_least_rate
      limits = { write_timeout_s: 0.3, response_rate_bytes_limit: 10_000_000 }
      serve(->(_env) { [200, {}, ["x" * 60_000]] }, limits: limits) do |served|
        h2 = connect(served, settings: { initial_window_size: 1 }).h2
        h2.obliging = false
        stream = h2.open("GET / HTTP/1.1", end_stream: true).head
        writer = Thread.new { loop { h2.write(GyreTest::H2.window_update(stream.id, 1)) && sleep(0.05) } }
        writer.report_on_exception = false
        assert_equal :cancel, stream.failure
      ensure
        writer&.kill&.join
      end
    end
  end
end

GyreTest::HTTPContract.run(HTTPSlowClientsContract, backends: GyreTest::Engines::NATIVE.first(1))
