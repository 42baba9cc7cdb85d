# frozen_string_literal: true

# Apps that take the whole connection: full and partial hijack, rack.protocol, CONNECT.

require "test_helper"
require "rack"
require "rack/lint"
require "http/contract"

module HTTP1Upgrades
  include GyreTest::HTTPServing

  def test_a_2xx_to_connect_has_no_framing_whatever_the_body_is
    bodies = { "a.test:1" => [], "a.test:2" => ["raw"], "a.test:3" => ["raw"].each }
    serve(->(env) { [200, { "content-length" => "3" }, bodies[env["REQUEST_URI"]]] }) do |served|
      bodies.each_key do |target|
        client = connect(served)
        client.write("CONNECT #{target} HTTP/1.1\r\nhost: #{target}\r\n\r\n")
        refute_match(/content-length|transfer-encoding/, client.take_through("\r\n\r\n"))
        assert_equal target.end_with?("1") ? "" : "raw", client.rest
      end
    end
  end

  def test_a_full_hijack_gives_the_socket_to_the_app
    app = lambda do |env|
      io = env["rack.hijack"].call
      io.write("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nraw")
      io.close
      [-1, {}, []]
    end
    serve(app) do |served|
      client = connect(served)
      assert_equal "raw", client.get.body
      assert client.ended?
      eventually { served.stats.values_at(:connections, :running) == [0, 0] }
    end
  end

  def test_a_hijacked_socket_has_what_the_client_sent_ahead
    app = lambda do |env|
      io = env["rack.hijack"].call
      io.write("first #{io.readpartial(100)}")
      io.write(", then #{io.read(4)}")
      io.close
      [200, {}, ["ignored"]]
    end
    serve(app) do |served|
      client = connect(served)
      client.request("GET / HTTP/1.1", "ahead")
      assert_equal "first ahead", client.take(11)
      client.write("late")
      assert_equal ", then late", client.rest
    end
  end

  def test_a_hijacked_socket_outlives_the_request
    handed_over = Thread::Queue.new
    app = lambda do |env|
      handed_over << env["rack.hijack"].call
      [200, {}, []]
    end
    serve(app) do |served|
      client = connect(served)
      client.request
      io = handed_over.pop
      eventually { served.stats[:running].zero? }
      io.write("still here")
      io.close
      assert_equal "still here", client.rest
    end
  end

  def test_an_app_that_raises_after_a_hijack_is_reported
    app = lambda do |env|
      env["rack.hijack"].call.close
      raise "after the hijack"
    end
    serve(app) do |served|
      client = connect(served)
      client.request
      assert client.ended?
      expect_errors(served, /after the hijack/)
    end
  end

  def test_a_partial_hijack_gets_the_socket_after_the_head
    app = lambda do |env|
      headers = env["PATH_INFO"] == "/own" ? { "transfer-encoding" => "chunked" } : { "x" => "y" }
      [200, headers.merge("rack.hijack" => lambda { |io|
        io.write(env["PATH_INFO"] == "/own" ? "3\r\nraw\r\n0\r\n\r\n" : "raw")
        io.close
      }), ["ignored"]]
    end
    serve(app) do |served|
      response = connect(served).get
      assert_equal ["raw", "y", "close", nil], [response.body, response["x"], response["connection"], response["rack.hijack"]]
      response = connect(served).get("GET /own HTTP/1.1")
      assert_equal %w[raw chunked], [response.body, response["transfer-encoding"]]
      client = connect(served)
      assert_equal 200, client.get("HEAD / HTTP/1.1").status
      assert_equal 200, client.get("HEAD / HTTP/1.1").status
    end
  end

  def test_rack_protocol_upgrades_the_connection
    seen = nil
    app = Rack::Lint.new(lambda do |env|
      seen = env["rack.protocol"]
      [200, { "rack.protocol" => "echo", "x" => "y" }, lambda do |stream|
        2.times { stream.write("echo #{stream.read(3)}") }
        stream.close
      end]
    end)
    serve(app) do |served|
      client = connect(served)
      client.request("GET / HTTP/1.1", "one", connection: "Upgrade", upgrade: "chess, echo")
      response = client.response
      assert_equal [101, "echo", "upgrade", "y"], [response.status, *%w[upgrade connection x].map { |name| response[name] }]
      assert_equal %w[chess echo], seen
      assert_equal "echo one", client.take(8)
      client.write("two")
      assert_equal "echo two", client.rest
    end
  end

  def test_a_rack_protocol_that_was_not_offered_is_a_500
    serve(->(_env) { [200, { "rack.protocol" => "echo" }, ->(stream) { stream.write("no") }] }) do |served|
      client = connect(served)
      assert_equal 500, client.get(connection: "upgrade", upgrade: "chess").status
      assert_equal 500, client.get.status
      expect_errors(served, /rack\.protocol is "echo"/, /rack\.protocol is "echo"/)
    end
  end

  def test_an_app_may_refuse_an_upgrade
    serve(->(_env) { [403, { "rack.protocol" => "echo" }, ["no"]] }) do |served|
      client = connect(served)
      2.times do
        response = client.get(connection: "upgrade", upgrade: "echo")
        assert_equal [403, "no", nil], [response.status, response.body, response["upgrade"]]
      end
    end
  end

  def test_connect_becomes_a_tunnel
    app = lambda do |env|
      [200, {}, lambda do |stream|
        stream.write("#{env["REQUEST_METHOD"]} #{env["PATH_INFO"]}: #{stream.read(2)}")
        stream.close
      end]
    end
    serve(app) do |served|
      client = connect(served)
      client.write("CONNECT gyre.test:443 HTTP/1.1\r\nhost: gyre.test:443\r\n\r\n")
      head = client.take_through("\r\n\r\n")
      refute_match(/content-length|transfer-encoding/, head)
      client.write("hi")
      assert_equal "CONNECT gyre.test:443: hi", client.rest
    end
  end
end

GyreTest::HTTPContract.run(HTTP1Upgrades, over: %i[http1 tls])
