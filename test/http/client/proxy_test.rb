# frozen_string_literal: true

# Which proxy the environment chooses for which server, without a connection.

require "test_helper"
require "gyre/http/client"

class HTTPClientProxyTest < Minitest::Test
  Proxy = Gyre::HTTP::Client::Proxy
  # no_proxy, scheme, host and port, whether the proxy is right
  CASES = [
    ["", "a.test", true], ["*", "a.test", false], ["a.test", "a.test", false], [".test", "a.test", false], ["*.test", "a.test", false],
    ["test", "a.test", false], ["est", "a.test", true], ["a.test:81", "a.test", true], ["a.test:80", "a.test", false],
    ["b.test, a.test", "a.test", false], ["b.test a.test", "a.test", false], ["A.TEST", "a.test", false], ["240.0.0.0/8", "240.0.0.1", false],
    ["240.0.0.1", "240.0.0.1", false], ["240.0.0.1:81", "240.0.0.1", true], ["241.0.0.0/8", "240.0.0.1", true], ["100::1", "[100::1]", false],
    ["[100::1]", "[100::1]", false], ["[100::1]:81", "[100::1]", true], ["100::/64", "[100::1]", false], ["240.0.0.0/8", "[100::1]", true],
    ["", "localhost", false], ["", "127.0.0.9", false], ["", "[::1]", false], ["240.0.0.0/99,,:", "240.0.0.1", true]
  ].freeze

  def test_no_proxy_in_each_form
    CASES.each do |rules, host, through|
      environment("http_proxy" => "http://proxy.test:3128", "no_proxy" => rules) do
        assert_equal through, !Proxy.for(:environment, "http", host, 80).nil?, "#{rules} #{host}"
      end
    end
  end

  def test_each_scheme_has_its_variable
    environment("http_proxy" => "http://one.test:1", "HTTPS_PROXY" => "http://two.test:2") do
      assert_equal %w[one.test two.test], %w[http https].map { |scheme| Proxy.for(:environment, scheme, "a.test", 80).host }
    end
    environment("HTTP_PROXY" => "http://one.test:1") { assert_equal "one.test", Proxy.for(:environment, "http", "a.test", 80).host }
    environment("HTTP_PROXY" => "http://one.test:1", "REQUEST_METHOD" => "GET") { assert_nil Proxy.for(:environment, "http", "a.test", 80) }
    environment("http_proxy" => "", "HTTP_PROXY" => "http://one.test:1") { assert_nil Proxy.for(:environment, "http", "a.test", 80) }
    environment({}) { assert_nil Proxy.for(:environment, "http", "a.test", 80) }
  end

  def test_an_address_without_a_scheme_is_http
    environment("http_proxy" => "proxy.test:3128") do
      assert_equal "http://proxy.test:3128", Proxy.for(:environment, "http", "a.test", 80).to_s
    end
    { "localhost:1" => "http://localhost:1", "10.0.0.1" => "http://10.0.0.1", "u:p@[::1]:8" => "http://u:p@[::1]:8" }.each do |given, read|
      assert_equal read, Proxy.for(given, "https", "a.test", 443).to_s
    end
  end

  def test_a_choice_asks_no_name_server
    asked = []
    spy = Module.new { define_method(:getaddress) { |name| (asked << name) && super(name) } }
    IPSocket.singleton_class.prepend(spy)
    environment("http_proxy" => "http://proxy.test:1", "no_proxy" => "10.0.0.0/8") { Proxy.for(:environment, "http", "a.test", 80) }
    assert_empty asked
  end

  def test_what_is_no_proxy_is_refused_without_its_password
    ["socks5://a:1", "http://", "http://name:secret@a b"].each do |address|
      error = assert_raises(ArgumentError) { Proxy.for(address, "http", "a.test", 80) }
      assert_equal ["proxy: write http://host:port", nil], [error.message, error.cause]
    end
  end

  private

  def environment(given)
    kept = ENV.to_h
    ENV.delete_if { |name, _| name.match?(/proxy\z/i) }
    ENV.update(given)
    yield
  ensure
    ENV.replace(kept)
  end
end
