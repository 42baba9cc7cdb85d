# frozen_string_literal: true

# The layer of plain requests: redirects, hosts without a certificate, challenges of ACME, headers
# of proxies.

require "test_helper"
require "gyre/web"

class WebHTTPSTest < Minitest::Test
  TOKEN = "a-Token_of-twenty-bytes"
  CHALLENGE = "/.well-known/acme-challenge/#{TOKEN}"
  ACME = Struct.new(:names, :key).new(%w[shop.test], Struct.new(:thumbprint).new("print"))
  TLS = [{ names: %w[shop.test], cert: "a", key: "a" }, { names: %w[*.wild.test], cert: "b", key: "b" }].freeze

  def test_a_plain_request_is_led_to_https_and_an_unknown_host_refused
    { "shop.test" => "https://shop.test/a%20b?c=d", "SHOP.test:80" => "https://shop.test:8443/a%20b?c=d",
      "x.wild.test" => "https://x.wild.test/a%20b?c=d" }.each do |host, location|
      assert_equal [301, location], call(host, "/a%20b", query: "c=d").then { |status, headers| [status, headers["location"]] }
    end
    ["wild.test", "a.x.wild.test", "127.0.0.1", "[::1]", "", "shop.test\\@evil.test", "evil.test/shop.test"].each do |host|
      assert_equal 421, call(host, "/").first, host
    end
    assert_equal 308, call("shop.test", "/", "REQUEST_METHOD" => "POST").first
    assert_equal [200, 200], [call("other.test", "/", "rack.url_scheme" => "https"), call("", "/", "REMOTE_ADDR" => "")].map(&:first)
  end

  def test_with_a_certificate_for_all_other_hosts_every_host_is_led_to_https
    tls = [*TLS, { cert: "c", key: "c" }]
    assert_equal [301, 421], [call("any.test", "/", tls: tls), call("a b", "/", tls: tls)].map(&:first)
    assert_equal 301, call("any.test", "/", tls: nil, acme: nil).first # certificates of addresses
  end

  def test_a_challenge_is_answered_for_its_hosts_only_and_before_all_else
    status, headers, body = call("shop.test:5002", CHALLENGE)
    assert_equal [200, "application/octet-stream", "nosniff", ["#{TOKEN}.print"]],
                 [status, headers["content-type"], headers["x-content-type-options"], body]
    assert_equal [421, 421, 301], [call("x.wild.test", CHALLENGE), call("other.test", CHALLENGE, "rack.url_scheme" => "https"),
                                   call("shop.test", "#{CHALLENGE}<script>")].map(&:first)
    assert_equal [true, false, false], [CHALLENGE, "#{CHALLENGE}/", "/"].map { |path| layers.exempt.call(path) ? true : false }
    assert_equal 301, call("shop.test", CHALLENGE, acme: nil).first
  end

  def test_headers_of_proxies_that_strangers_send_are_dropped
    env = { "HTTP_X_FORWARDED_PROTO" => "https", "HTTP_X_FORWARDED_HOST" => "evil.test", "HTTP_FORWARDED" => "for=1.2.3.4" }
    assert_equal 301, call("shop.test", "/", **env).first
    _, _, body = call("shop.test", "/", "rack.url_scheme" => "https", **env)
    assert_equal [[]], body
    _, _, body = call("shop.test", "/", trusted_proxy: ["192.0.2.1"], **env)
    assert_equal [["HTTP_X_FORWARDED_PROTO"]], body # a proxy that speaks https with the client
  end

  private

  def layers(**options)
    app = ->(env) { [200, {}, [env.keys.grep(/FORWARDED/)]] }
    Gyre::Web::Layers.new(app, log: nil, tls: TLS, acme: ACME, port: -> { 8443 }, https_redirect: true, **options)
  end

  def call(host, path, query: "", tls: TLS, acme: ACME, trusted_proxy: [], **env)
    layers(tls: tls, acme: acme, trusted_proxy: trusted_proxy).app.call(
      { "REQUEST_METHOD" => "GET", "HTTP_HOST" => host, "PATH_INFO" => path, "QUERY_STRING" => query, "rack.url_scheme" => "http",
        "REMOTE_ADDR" => "192.0.2.1", **env }
    )
  end
end
