# frozen_string_literal: true

# What is believed of a proxy's headers: Gyre::Web::TrustedProxies.

require "test_helper"
require "gyre/web/layers/trusted_proxies"

class WebTrustedProxiesTest < Minitest::Test
  FORWARDING = %w[HTTP_X_FORWARDED_FOR HTTP_X_FORWARDED_PROTO HTTP_X_FORWARDED_HOST HTTP_X_FORWARDED_PORT HTTP_FORWARDED
                  HTTP_X_FORWARDED_SSL HTTP_X_FORWARDED_SCHEME HTTP_X_REAL_IP HTTP_CLIENT_IP].freeze

  def test_a_trusted_proxy_names_the_client
    assert_equal "203.0.113.9", remote(peer: "10.0.0.1", for: "203.0.113.9")
  end

  def test_hops_are_read_from_right_to_left_over_trusted_ones_only
    {
      "203.0.113.9, 10.0.0.2" => "203.0.113.9",
      "1.1.1.1, 203.0.113.9, 10.0.0.2" => "203.0.113.9", # the client has sent 1.1.1.1 itself
      "203.0.113.9,10.0.0.3 ,10.0.0.2" => "203.0.113.9",
      "10.0.0.4, 10.0.0.2" => "10.0.0.4",
      "2001:db8::1" => "2001:db8::1", "[2001:db8::1]:4711" => "2001:db8::1", "203.0.113.9:4711" => "203.0.113.9"
    }.each { |list, client| assert_equal client, remote(peer: "10.0.0.1", for: list), list }
  end

  def test_where_the_client_hides_the_proxy_before_it_stands_for_it
    ["unknown, 10.0.0.2", "_hidden, 10.0.0.2", "evil<script>, 10.0.0.2", ", 10.0.0.2", "10.0.0.0/8, 10.0.0.2"].each do |list|
      assert_equal "10.0.0.2", remote(peer: "10.0.0.1", for: list), list
    end
    assert_equal "10.0.0.1", remote(peer: "10.0.0.1", for: "unknown")
  end

  def test_hops_left_of_the_client_are_not_passed_on
    assert_equal "203.0.113.9, 10.0.0.2", env(peer: "10.0.0.1", for: "6.6.6.6, 203.0.113.9, 10.0.0.2")["HTTP_X_FORWARDED_FOR"]
  end

  def test_headers_of_others_are_dropped
    env = env(peer: "203.0.113.66", for: "1.1.1.1", proto: "https", host: "evil.example", port: "1", forwarded: "for=1.1.1.1",
      "HTTP_X_REAL_IP" => "1.1.1.1", "HTTP_X_FORWARDED_SSL" => "on")
    assert_equal ["203.0.113.66", "http", "app.example", "80"], facts(env)
    assert_empty env.keys & FORWARDING
  end

  def test_scheme_host_and_port_come_from_a_trusted_proxy
    env = env(peer: "10.0.0.1", for: "203.0.113.9", proto: "https", host: "www.example")
    assert_equal ["203.0.113.9", "https", "www.example", "443"], facts(env)
    assert_equal %w[www.example on], env.values_at("HTTP_HOST", "HTTPS")
    env = env(peer: "10.0.0.1", proto: "https", host: "www.example:8443")
    assert_equal ["10.0.0.1", "https", "www.example", "8443"], facts(env)
    assert_equal "www.example:8443", env["HTTP_HOST"]
    assert_equal ["https", "app.example", "9443"], facts(env(peer: "10.0.0.1", proto: "https", port: "9443")).last(3)
  end

  def test_a_list_of_schemes_belongs_to_the_hops
    assert_equal "https", facts(env(peer: "10.0.0.1", for: "203.0.113.9, 10.0.0.2", proto: "https, http"))[1]
    assert_equal "http", facts(env(peer: "10.0.0.1", for: "1.1.1.1, 203.0.113.9, 10.0.0.2", proto: "https, http, https"))[1]
  end

  def test_http_from_the_proxy_takes_https_away
    env = env(peer: "10.0.0.1", proto: "http", "rack.url_scheme" => "https", "HTTPS" => "on")
    assert_equal "http", env["rack.url_scheme"]
    refute env.key?("HTTPS")
  end

  def test_an_invalid_scheme_or_host_is_ignored
    env = env(peer: "10.0.0.1", for: "203.0.113.9", proto: "javascript", host: "evil/../x", port: "abc")
    assert_equal ["203.0.113.9", "http", "app.example", "80"], facts(env)
  end

  def test_a_unix_sockets_peer_is_trusted
    assert_equal "203.0.113.9", remote(peer: "", for: "203.0.113.9")
  end

  def test_ranges_have_names
    %w[127.0.0.1 10.1.2.3 172.31.0.1 192.168.1.1 ::1 fd00::1 ::ffff:10.0.0.1].each do |peer|
      assert_equal "203.0.113.9", remote(peer: peer, for: "203.0.113.9", trusted: ["private"]), peer
    end
    %w[172.32.0.1 11.0.0.1 2001:db8::1].each { |peer| assert_equal peer, remote(peer: peer, for: "203.0.113.9", trusted: ["private"]) }
    assert_raises(ArgumentError) { Gyre::Web::TrustedProxies.ranges("10.0.0.0/99") }
    assert_raises(ArgumentError) { Gyre::Web::TrustedProxies.ranges("example.org") }
  end

  # A proxy that writes only one kind passes the other on as its client sent it.
  def test_only_the_chosen_kind_of_header_counts
    assert_equal "10.0.0.1", remote(peer: "10.0.0.1", forwarded: "for=6.6.6.6")
    assert_equal "10.0.0.1", remote(peer: "10.0.0.1", for: "6.6.6.6", headers: ["forwarded"])
  end

  # Most proxies write -For and -Proto, and pass the others on as their client sent them.
  def test_only_headers_that_were_named_are_believed
    usual = { peer: "10.0.0.1", for: "203.0.113.9", proto: "https", host: "evil.example", port: "1234", headers: Gyre::Web::TrustedProxies::USUAL }
    assert_equal ["203.0.113.9", "https", "app.example", "443"], facts(env(**usual))
    assert_empty env(**usual).keys & %w[HTTP_X_FORWARDED_HOST HTTP_X_FORWARDED_PORT]
    assert_equal ["203.0.113.9", "http", "app.example", "80"], facts(env(**usual, headers: ["x-forwarded-for"]))
    assert_equal ["10.0.0.1", "http", "evil.example", "80"], facts(env(**usual, headers: ["x-forwarded-host"]))
    assert_raises(ArgumentError) { env(**usual, headers: %w[forwarded x-forwarded-for]) }
  end

  def test_forwarded_as_rfc_7239_has_it
    {
      "for=203.0.113.9" => ["203.0.113.9", "http", "app.example", "80"],
      "For=\"[2001:db8:cafe::17]:4711\"" => ["2001:db8:cafe::17", "http", "app.example", "80"],
      "for=203.0.113.9;proto=https;host=www.example;by=203.0.113.43" => ["203.0.113.9", "https", "www.example", "443"],
      "for=6.6.6.6;proto=https, for=203.0.113.9;host=\"www.example:81\", for=10.0.0.2" => ["203.0.113.9", "http", "www.example", "81"],
      "for=unknown" => ["10.0.0.1", "http", "app.example", "80"],
      "for=\"_a\\\"b\"" => ["10.0.0.1", "http", "app.example", "80"],
      "for=\"unclosed, for=203.0.113.9" => ["10.0.0.1", "http", "app.example", "80"],
      ";;;" => ["10.0.0.1", "http", "app.example", "80"]
    }.each { |text, facts| assert_equal facts, facts(env(peer: "10.0.0.1", forwarded: text, headers: ["forwarded"])), text }
  end

  def test_a_long_list_costs_bounded_time
    assert_equal "203.0.113.9", remote(peer: "10.0.0.1", for: "#{"1.1.1.1," * 6000}203.0.113.9")
  end

  def test_an_address_that_the_limit_cuts_is_dropped
    text = "110.0.0.1, #{" " * 4078}10.0.0.2"
    assert_equal "10.0.0.1,", text.byteslice(-4096..)[0, 9]
    assert_equal "10.0.0.2", remote(peer: "10.0.0.9", for: text, trusted: ["10.0.0.2/31", "10.0.0.8/31"])
    assert_equal "10.0.0.2", remote(peer: "10.0.0.9", for: text)
  end

  # Elements of 60 KB would be some 60,000 objects for each request.
  def test_the_end_of_a_long_list_alone_is_looked_at
    list = "#{"," * 60_000}203.0.113.9"
    forwarded = "#{"for=a;" * 10_000}for=203.0.113.9"
    env(peer: "10.0.0.1", for: list) # what is made once
    [{ for: list }, { forwarded: forwarded, headers: ["forwarded"] }].each do |said|
      objects = GC.stat(:total_allocated_objects)
      env(peer: "10.0.0.1", **said)
      assert_operator GC.stat(:total_allocated_objects) - objects, :<, 20_000
    end
  end

  private

  def env(peer:, for: nil, proto: nil, host: nil, port: nil, forwarded: nil, trusted: ["10.0.0.0/8"],
          headers: Gyre::Web::TrustedProxies::HEADERS - ["forwarded"], **more)
    env = { "REMOTE_ADDR" => peer, "rack.url_scheme" => "http", "SERVER_NAME" => "app.example", "SERVER_PORT" => "80",
            "HTTP_HOST" => "app.example" }
    said = { "HTTP_X_FORWARDED_FOR" => binding.local_variable_get(:for), "HTTP_X_FORWARDED_PROTO" => proto,
             "HTTP_X_FORWARDED_HOST" => host, "HTTP_X_FORWARDED_PORT" => port, "HTTP_FORWARDED" => forwarded }
    env.merge!(said.compact, more)
    Gyre::Web::TrustedProxies.new(->(_env) { [200, {}, []] }, trusted, headers: headers).call(env)
    env
  end

  def remote(**options) = env(**options)["REMOTE_ADDR"]

  def facts(env) = env.values_at("REMOTE_ADDR", "rack.url_scheme", "SERVER_NAME", "SERVER_PORT")
end
