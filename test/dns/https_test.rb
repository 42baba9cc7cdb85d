# frozen_string_literal: true

# DNS over HTTPS as a Rack app (RFC 8484); test/dns/programs_test.rb asks it through `gyre serve`.
require "test_helper"
require "support/dns_serving"
require "gyre/dns/https"
require "stringio"

class DNSHTTPSTest < Minitest::Test
  include GyreTest::DNSServing

  QUERY = Gyre::DNS::Message.query("web.example.org", "A", id: 0, edns: nil).encode
  TYPE = "application/dns-message"

  def setup
    super
    @app = Gyre::DNS::HTTPS.new(&zones)
    @zone_files.each(&:close!).clear
  end

  def test_post
    status, headers, body = call("POST", QUERY)
    assert_equal [200, TYPE, "max-age=60"], [status, *headers.values_at("content-type", "cache-control")]
    assert_equal "192.0.2.80", Gyre::DNS::Message.parse(body.join).answers[0].resource.address.to_s
    assert_equal body.join.bytesize, headers["content-length"].to_i
  end

  def test_get
    status, headers, body = @app.call("REQUEST_METHOD" => "GET", "QUERY_STRING" => "a=b&dns=#{encode(QUERY)}")
    assert_equal [200, "max-age=60"], [status, headers["cache-control"]]
    assert_equal 1, Gyre::DNS::Message.parse(body.join).answers.size
  end

  def test_absence_is_fresh_as_long_as_its_soa_record
    none = Gyre::DNS::Message.query("none.example.org", "A", edns: nil).encode
    assert_equal "max-age=300", call("POST", none)[1]["cache-control"]
    refused = Gyre::DNS::Message.query("example.com", "A", edns: nil).encode
    assert_equal "no-store", call("POST", refused)[1]["cache-control"]
  end

  def test_other_requests_are_refused
    assert_equal 405, @app.call("REQUEST_METHOD" => "PUT")[0]
    assert_equal 415, @app.call("REQUEST_METHOD" => "POST", "CONTENT_TYPE" => "text/plain", "rack.input" => StringIO.new(QUERY))[0]
    assert_equal 413, call("POST", "x" * 65_536)[0]
    assert_equal 400, call("POST", "x")[0]
    ["", "dns=", "dns=*", "dns=a", "dns=#{encode(QUERY)}="].each do |query|
      assert_equal 400, @app.call("REQUEST_METHOD" => "GET", "QUERY_STRING" => query)[0], query
    end
  end

  def test_only_known_clients_of_the_networks_get_recursion
    upstream = Class.new { def forward(bytes) = bytes.b.tap { |reply| reply.setbyte(2, 0x81) } }.new
    @app = Gyre::DNS::HTTPS.new do
      recursion "127.0.0.0/8", "::1", "192.0.2.0/24"
      otherwise { |transaction| transaction.passthrough!(upstream) }
    end
    query = Gyre::DNS::Message.query("x", "A", edns: nil).encode
    allowed = lambda do |env|
      Gyre::DNS::Message.parse(call("POST", query, env)[2].join).rcode.zero?
    end
    assert allowed.call({})
    assert allowed.call("REMOTE_ADDR" => "192.0.2.1", "HTTP_X_FORWARDED_FOR" => "192.0.2.1") # as --trusted-proxy leaves it
    [{ "REMOTE_ADDR" => nil }, { "REMOTE_ADDR" => "" }, { "REMOTE_ADDR" => "unix:" }, { "REMOTE_ADDR" => "198.51.100.1" },
     { "HTTP_X_FORWARDED_FOR" => "127.0.0.1, 198.51.100.1" }, { "HTTP_X_FORWARDED_FOR" => "198.51.100.1" },
     { "HTTP_FORWARDED" => "for=127.0.0.1" }, { "HTTP_X_REAL_IP" => "127.0.0.1" }].each { |env| refute allowed.call(env), env }
  end

  private

  def call(method, bytes, env = {})
    env = { "REMOTE_ADDR" => "127.0.0.1", **env }
    @app.call("REQUEST_METHOD" => method, "CONTENT_TYPE" => TYPE, **env, "rack.input" => StringIO.new(bytes))
  end

  def encode(bytes) = [bytes].pack("m0").tr("+/", "-_").delete("=")
end
