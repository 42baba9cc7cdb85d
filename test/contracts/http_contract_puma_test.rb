# frozen_string_literal: true

# What apps and gems that come from Puma rely on.

require "test_helper"
require "http/contract"

module HTTPPumaContract
  include GyreTest::HTTPServing

  EVENTS = { "content-type" => "text/event-stream" }.freeze

  def test_after_reply_is_called_in_order_even_if_one_raises
    called = Thread::Queue.new
    app = lambda do |env|
      env["rack.after_reply"] << -> { called << 1 } << -> { raise "in after_reply" } << -> { called << 2 }
      [200, {}, ["hello"]]
    end
    serve(app) do |served|
      assert_equal "hello", get(served).body
      assert_equal [1, 2], Array.new(2) { called.pop }
      expect_errors(served, /in after_reply/)
    end
  end

  def test_early_hints_may_be_lines_of_one_value
    app = lambda do |env|
      env["rack.early_hints"].call("Link" => "</a>\n</b>")
      [200, {}, ["done"]]
    end
    serve(app) do |served|
      client = connect(served)
      client.request
      assert_equal 2, client.response(interim: true).then { |hints| hints.count("link") }
      assert_equal "done", client.response(interim: true).body
    end
  end

  def test_headers_that_differ_in_case_or_are_pairs_are_all_sent
    bodies = [["a"], ["a"].each, ->(stream) { stream.write("a") && stream.close }]
    headers = [{ "Set-Cookie" => "a=1", "set-cookie" => "b=2" }, [["set-cookie", "a=1"], ["set-cookie", "b=2"]]]
    app = lambda do |env|
      number = Integer(env["QUERY_STRING"])
      [200, headers[number % 2], bodies[number / 2]]
    end
    serve(app) do |served|
      6.times { |number| assert_equal 2, get(served, "GET /?#{number} HTTP/1.1").count("set-cookie"), number }
    end
  end

  def test_chunks_of_the_apps_own_arrive_as_their_content
    app = ->(_env) { [200, { "transfer-encoding" => "chunked" }, ["5\r\nhello\r\n", "0\r\n\r\n"].each] }
    serve(app) { |served| assert_equal "hello", get(served).body }
  end

  def test_a_stream_that_the_app_keeps_is_open_until_it_is_closed
    kept = Thread::Queue.new
    app = ->(env) { [200, env["PATH_INFO"] == "/events" ? EVENTS : {}, ->(stream) { kept << stream }] }
    serve(app) do |served|
      %w[/events /other].each do |path|
        client = connect(served)
        client.request("GET #{path} HTTP/1.1")
        stream = kept.pop
        Thread.new { %w[one two].each { |text| stream.write(text) } && stream.close }.join
        assert_equal "onetwo", client.response.body
        assert_raises(IOError) { stream.write("late") }
      end
      eventually { served.stats[:running].zero? }
    end
  end

  def test_a_stop_ends_a_kept_stream
    kept = Thread::Queue.new
    serve(->(_env) { [200, EVENTS, ->(stream) { kept << stream }] }) do |served|
      client = connect(served)
      client.request
      kept.pop
      served.on_loop { served.server.shutdown(30) }
      assert_empty client.response.body
    end
  end

  def test_a_departed_client_ends_an_idle_event_stream
    ended = Thread::Queue.new
    body = lambda do |stream|
      stream.write("data: 1\n\n")
      Thread::Queue.new.pop
    ensure
      ended << true
    end
    serve(->(_env) { [200, EVENTS, body] }, limits: { write_timeout_s: 0.1 }) do |served|
      [:close, :reset, ->(client) { client.socket.shutdown(:WR) }].each do |departs|
        client = connect(served).request
        client.take_through("\r\n\r\n")
        next client.close if departs.is_a?(Proc) && !client.socket.respond_to?(:shutdown) # TLS

        departs.to_proc.call(client)
        assert ended.pop
        eventually { served.stats[:connections].zero? }
      end
    end
  end

  module HTTP1
    def test_the_end_of_a_response_does_not_wait_for_callables
      gate = Thread::Queue.new
      app = lambda do |env|
        env["rack.response_finished"] << ->(*) { gate.pop }
        [200, {}, ["hello"].each]
      end
      serve(app) do |served|
        client = connect(served).write("GET / HTTP/1.0\r\n\r\n")
        assert_match(/hello\z/, client.rest)
        gate << true
      end
    end
  end

  module HTTP2
    def test_a_body_without_a_length_counts_as_chunked
      app = ->(env) { [200, {}, [env.values_at("HTTP_TRANSFER_ENCODING", "CONTENT_LENGTH").inspect]] }
      serve(app) do |served|
        h2 = connect(served).h2
        assert_equal ["chunked", nil].inspect, h2.open("POST /").write("a", end_stream: true).response.body
        assert_equal [nil, "1"].inspect, h2.open("POST /", content_length: 1).write("a", end_stream: true).response.body
        assert_equal [nil, nil].inspect, h2.get.body
      end
    end

    # libnghttp2 drops a longer one silently.
    def test_a_head_is_sent_or_its_stream_reset
      app = ->(env) { [200, { "x" => Array.new(Integer(env["QUERY_STRING"])) { "y" * 1000 } }, ["hello"]] }
      serve(app) do |served|
        h2 = connect(served).h2
        assert_equal "hello", h2.get("GET /?100 HTTP/1.1").body
        refute_nil h2.open("GET /?1100", end_stream: true).failure
        expect_errors(served, /EMSGSIZE/)
        assert_equal "hello", h2.get("GET /?10 HTTP/1.1").body
      end
    end
  end
end

GyreTest::HTTPContract.run(HTTPPumaContract)
