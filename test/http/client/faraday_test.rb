# frozen_string_literal: true

# Faraday over the client. The gem comes with the bundle of rake test:newest_gems.

require "test_helper"
require "http/h2/serving"

begin
  require "gyre/http/client/faraday"
rescue LoadError
  warn "tests: the gem faraday is not in this bundle; rake test:newest_gems runs its tests"
end

module FaradayCases
  include GyreTest::H2Serving

  APP = lambda do |env|
    case env["PATH_INFO"]
    when "/echo" then [200, { "x-type" => env["CONTENT_TYPE"].to_s, "set-cookie" => %w[a=1 b=2] }, [env["rack.input"].read]]
    when "/slow" then sleep
    when "/moved" then [302, { "location" => "/" }, []]
    when "/pieces" then [200, {}, Enumerator.new { |out| 3.times { |index| out << index.to_s } }]
    else [200, { "content-type" => "text/plain" }, [env.values_at("REQUEST_METHOD", "QUERY_STRING", "HTTP_X_OWN", "HTTP_ACCEPT_ENCODING").join(" ")]]
    end
  end

  def test_requests_bodies_and_streams
    over do |connection|
      response = connection.get("/path", { a: 1 }, { "X-Own" => "b" })
      assert_equal [200, "GET a=1 b ", "text/plain"], [response.status, response.body, response.headers["Content-Type"]]
      response = connection.post("/echo", "body", "Content-Type" => "text/x")
      assert_equal ["body", "text/x", "a=1, b=2"], [response.body, response.headers["x-type"], response.headers["set-cookie"]]
      assert_equal "from an IO", connection.put("/echo", StringIO.new("from an IO")).body
      assert_equal 302, connection.get("/moved").status
      pieces = []
      connection.get("/pieces") { |request| request.options.on_data = ->(piece, _size, _env) { pieces << piece } }
      assert_equal "012", pieces.join
    end
  end

  def test_errors_are_faradays
    over do |connection|
      assert_raises(Faraday::TimeoutError) { connection.get("/slow") { |request| request.options.timeout = 0.05 } }
      assert_raises(Faraday::TimeoutError) { connection.get("/slow") { |request| request.options.read_timeout = 0.05 } }
      free = free_port
      assert_raises(Faraday::ConnectionFailed) { connection.get("http://127.0.0.1:#{free}/") }
    end
  end

  private

  def over
    serve(APP) do |served|
      url = "#{tls? ? "https" : "http"}://127.0.0.1:#{served.port}"
      connection = Faraday.new(url: url, ssl: tls? ? { verify: false } : nil) { |faraday| faraday.adapter :gyre }
      Gyre.run { yield connection }
    ensure
      connection&.close
    end
  end
end

if defined?(Faraday)
  class FaradayTest < Minitest::Test
    include FaradayCases
  end

  class FaradayOverTLSTest < Minitest::Test
    include FaradayCases

    def tls? = true
  end
end
