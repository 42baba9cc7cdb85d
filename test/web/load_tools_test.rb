# frozen_string_literal: true

# `gyre serve` under programs that others wrote for loading web servers: every response has to be
# right for them, too.

require "test_helper"
require_relative "serving"

class WebLoadToolsTest < Minitest::Test
  include GyreTest::Serving

  def test_wrk_gets_only_good_responses
    wrk = need_program("wrk")
    serve("--log-format", "none") do |program|
      out = IO.popen([wrk, "-t1", "-c16", "-d1s", "--timeout", "30s", "#{program.urls.first}/"], &:read)
      assert_operator out[/(\d+) requests in/, 1].to_i, :>, 0
      refute_match(/Socket errors|Non-2xx/, out)
    end
  end

  def test_h2load_gets_only_good_responses_over_http_1
    h2load = need_program("h2load")
    serve("--log-format", "none") do |program|
      out = IO.popen([h2load, "--h1", "-n", "500", "-c", "8", "-m", "4", "#{program.urls.first}/"], err: %i[child out], &:read)
      assert_match(/500 succeeded, 0 failed, 0 errored/, out)
      assert_match(/500 2xx, 0 3xx, 0 4xx, 0 5xx/, out)
    end
  end

  def test_http_1_0_without_host_gets_the_address_that_it_came_to
    app = 'run(->(env) { [200, {}, [env.values_at("SERVER_NAME", "SERVER_PORT").join(" ")]] })'
    flags = ["-b", "tcp://127.0.0.1:0", "-b", "tcp://[::1]:0", "-b", "tcp://127.0.0.3:0"]
    serve(*flags, app: app, port: false) do |program|
      program.urls.each do |url|
        uri = URI(url)
        socket = TCPSocket.new(uri.hostname, uri.port)
        socket.write("GET / HTTP/1.0\r\n\r\n")
        assert_equal "#{uri.host} #{uri.port}", socket.read.split("\r\n\r\n").last
      ensure
        socket&.close
      end
    end
  end
end
