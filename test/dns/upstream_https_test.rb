# frozen_string_literal: true

# Name servers over HTTPS (Gyre::DNS::UpstreamHTTPS): our own HTTP server with an app that answers.
require "test_helper"
require "gyre"
require "gyre/dns/resolver"
require "http/serving"
require "support/name_servers"

class DNSUpstreamHTTPSTest < Minitest::Test
  include GyreTest::HTTPServing
  include GyreTest::NameServers

  TYPE = "application/dns-message"

  def test_both_families_are_asked_by_post
    requests = []
    app = lambda do |env|
      bytes = env["rack.input"].read
      requests << env.values_at("REQUEST_METHOD", "PATH_INFO", "CONTENT_TYPE", "HTTP_ACCEPT")
      [200, { "content-type" => TYPE }, [reply_to(bytes, type_of(bytes) == 1 ? "one.test 60 A 192.0.2.1" : "one.test 60 AAAA 2001:db8::1")]]
    end
    [%w[h2 http/1.1], []].each do |alpn|
      over(app, alpn) do |resolver|
        assert_equal ["192.0.2.1", "2001:db8::1"], resolver.addresses("one.test").sort
        resolver.cache.clear
        assert_equal(["192.0.2.1", "2001:db8::1"], Gyre.run { resolver.addresses("one.test") }.sort)
      end
    end
    assert_equal [["POST", "/dns-query", TYPE, TYPE]] * 8, requests
  end

  # Responses that are no answers => the reason.
  FAULTS = { [404, { "content-type" => TYPE }, []] => /status 404/,
             [200, { "content-type" => "text/html" }, ["<p>"]] => %r{status 200, text/html},
             [200, { "content-type" => TYPE }, ["short"]] => /no response/,
             [200, { "content-type" => TYPE }, ["x" * 70_000]] => /longer|limit/ }.freeze

  def test_other_responses_are_no_answer
    FAULTS.each do |response, reason|
      over(->(_env) { response }, []) do |resolver|
        assert_match reason, assert_raises(Gyre::DNS::NoAnswer) { resolver.query("one.test") }.message
      end
    end
  end

  def test_an_unknown_certificate_is_not_an_answer
    over(->(_env) { flunk }, [], tls: nil) do |resolver|
      assert_match(/certificate/, assert_raises(Gyre::DNS::NoAnswer) { resolver.query("one.test") }.message)
    end
  end

  private

  def tls? = true

  # Serves the app, and yields a resolver that asks it.
  def over(app, alpn, tls: Gyre::TLS.client(verify: false, alpn: alpn))
    serve(app, identity: alpn.any? ? { **GyreTest::HTTPServing.identity, alpn: alpn } : nil) do |served|
      resolver = Gyre::DNS::Resolver.new("https://127.0.0.1:#{served.port}/dns-query", hosts: nil, tls: tls, attempts: 1, timeout_s: 30)
      yield resolver
    ensure
      resolver&.close
    end
  end
end
