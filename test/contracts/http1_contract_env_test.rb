# frozen_string_literal: true

# Both engines make the same environment, to the byte and the encoding, of the same request.

require "test_helper"
require "support/engines"
require "http1/serving"

class HTTP1EnvContractTest < Minitest::Test
  include GyreTest::HTTP1Serving

  REQUESTS = [
    "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
    "GET /a/b%2fc?d=e&f HTTP/1.1\r\nhost: example.test:8080\r\nuser-agent: x\r\naccept: */*\r\n\r\n",
    "GET http://other.test:81/x?y HTTP/1.1\r\nHost: a\r\nX: 1\r\nx:2\r\nX:\t 3 \r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nhost: [::1]:80\r\n\r\n",
    "CONNECT a.test:443 HTTP/1.1\r\nhost: a.test:443\r\n\r\n",
    "POST /p HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-type: text/plain; charset=utf-8\r\n\r\nabc",
    "PATCH /p HTTP/1.1\r\nhost: a\r\ntransfer-encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\nt: u\r\n\r\n",
    "PURGE /odd HTTP/1.1\r\nhost: a\r\nX-\xC3\xA4: b\r\n\r\n".b.delete("\xC3\xA4".b),
    "GET /bytes HTTP/1.1\r\nhost: a\r\nx-bytes: \xC3\xA4\xFF\r\ncookie: a=b\r\ncookie: c=d\r\nx_y: dropped\r\nx-empty:\r\n\r\n".b,
    "GET /up HTTP/1.1\r\nhost: a\r\nconnection: keep-alive, Upgrade\r\nupgrade: websocket, chess/1\r\n\r\n",
    "GET /old HTTP/1.0\r\n\r\n",
    "GET /old? HTTP/1.0\r\nhost: b\r\nconnection: keep-alive\r\n\r\n",
    "\r\nGET //x HTTP/1.1\r\nHOST: A\r\nExpect: 100-continue\r\n\r\n"
  ].freeze

  def environments(backend, scheme)
    seen = []
    app = lambda do |env|
      seen << env.to_h { |key, value| [key, described(value)] }
      [200, { "connection" => "close" }, []]
    end
    before = ENV["GYRE_BACKEND"]
    ENV["GYRE_BACKEND"] = backend
    GC.stress = false if backend == "select" # there is no C in it
    serve(app, scheme: scheme) do |served|
      REQUESTS.each { |bytes| connect(served).write(bytes).rest }
      seen.each { |env| env["SERVER_PORT"] = "ours" if env["SERVER_PORT"].first == served.port.to_s }
    end
    seen
  ensure
    ENV["GYRE_BACKEND"] = before
  end

  def described(value)
    case value
    when String then [value, value.encoding]
    when Array  then value.map { |part| described(part) }
    when IO, true, false, nil then value
    else value.class.name.sub(/(?:Native|Portable)Connection/, "Connection")
    end
  end

  def test_both_engines_make_the_same_environments
    skip "the native engine is not built" unless GyreTest::Engines::BACKENDS.include?("epoll")

    %w[http https].each do |scheme|
      GC.stress = GyreTest::LifecycleChecks::STRESS
      native, portable = %w[epoll select].map { |backend| environments(backend, scheme) }
      assert_equal REQUESTS.size, native.size
      native.zip(portable, REQUESTS).each do |one, other, bytes|
        differing = (one.keys | other.keys).reject { |key| one[key] == other[key] }
        assert_empty differing, "#{bytes.inspect}\nnative: #{one.slice(*differing)}\nportable: #{other.slice(*differing)}"
      end
    end
  end
end
