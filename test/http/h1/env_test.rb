# frozen_string_literal: true

# The environment of each request is, to the byte and the encoding, the one that
# test/oracle/http/env.rb makes of it.

require "test_helper"
require "support/engines"
require "http/serving"
require "oracle/http/env"

class HTTP1ServedEnvTest < Minitest::Test
  include GyreTest::HTTPServing

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

  # What stands where the exchange would.
  module Exchange
    def self.trailers = {}
  end

  def served_environments
    seen = []
    app = lambda do |env|
      seen << described(env)
      [200, { "connection" => "close" }, []]
    end
    serve(app) do |served|
      REQUESTS.each { |bytes| connect(served).write(bytes).rest }
      seen.each { |env| env["SERVER_PORT"] = described("ours".b) if env["SERVER_PORT"].first == served.port.to_s }
    end
    seen
  end

  def expected_environment(bytes)
    head = HTTPOracle::Parser.new
    assert_operator head.parse(bytes.b), :>, 0, head.reason
    template = Gyre::HTTP::Env.template(early_hints: true)
    described(HTTPOracle::Env.build(template, head, Exchange, "127.0.0.1".b, "127.0.0.1".b, "ours".b))
  end

  def described(value)
    case value
    when Hash   then value.transform_values { |part| described(part) }
    when String then [value, value.encoding]
    when Array  then value.map { |part| described(part) }
    when IO, true, false, nil then value
    when Exchange.singleton_class, Gyre::HTTP::Exchange then "Exchange"
    else value.class.name
    end
  end

  def test_the_environments_are_those_of_the_oracle
    skip "the C extension is not built" unless Gyre::Loop.native?

    GC.stress = GyreTest::LifecycleChecks::STRESS
    served = served_environments
    assert_equal REQUESTS.size, served.size
    served.zip(REQUESTS).each do |env, bytes|
      expected = expected_environment(bytes)
      differing = (env.keys | expected.keys).reject { |key| env[key] == expected[key] }
      assert_empty differing, "#{bytes.inspect}\nserved: #{env.slice(*differing)}\nexpected: #{expected.slice(*differing)}"
    end
  end
end
