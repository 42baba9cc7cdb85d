# frozen_string_literal: true

# Addresses: those that programs give, those of redirects, and their credentials.

require "test_helper"
require "gyre/http/client"
require "http/client/scripted_server"

class HTTPClientOriginTest < Minitest::Test
  include GyreTest::ScriptedServer

  Origin = Gyre::HTTP::Client::Origin

  def test_a_redirects_address_is_resolved
    # RFC 3986, section 5.4, then what servers leave unescaped
    { "g" => "/b/c/g", "./g" => "/b/c/g", "g/" => "/b/c/g/", "/g" => "/g", "?y" => "/b/c/d;p?y", "g?y" => "/b/c/g?y", "g?y/./x" => "/b/c/g?y/./x",
      "#s" => "/b/c/d;p?q", "" => "/b/c/d;p?q", "." => "/b/c/", "./" => "/b/c/", ".." => "/b/", "../g" => "/b/g", "../.." => "/",
      "../../../g" => "/g", "/./g" => "/g", "g." => "/b/c/g.", "..g" => "/b/c/..g", "./g/." => "/b/c/g/", "g/../h" => "/b/c/h",
      "/a|b[1]{c}" => "/a|b[1]%7Bc%7D", "/x?f[]=\"1\"" => "/x?f[]=%221%22", "/100%" => "/100%", "/\u00e4 b" => "/%C3%A4%20b",
      "/a^`<>\\" => "/a%5E%60%3C%3E%5C" }.each do |location, target|
      assert_equal "http://a#{target}", Origin.resolve("http://a", "/b/c/d;p?q", location), location
    end
    { "//b/x" => "http://b/x", "HTTP://B:81/../x?y#z" => "HTTP://B:81/x?y", "https://[::1]" => "https://[::1]" }.each do |location, url|
      assert_equal url, Origin.resolve("http://a", "/", location), location
    end
    ["http:/x", "mailto:x"].each { |location| assert_nil Origin.resolve("http://a", "/", location), location }
    assert_equal "http://a/end", Origin.resolve("http://a", "/old|page", "/end")
  end

  def test_equal_lines_of_a_location_count_once_and_different_ones_are_an_error
    lines = { "/twice" => %w[/end?x=1] * 2, "/two" => %w[/end /other], "/hosts" => %w[http://a/ https://a/], "/comma" => ["/a, b"], "/none" => [""] }
    script = lambda do |peer|
      while (head = peer.head)
        locations = lines.fetch(head[/ (\S+)/, 1], []).map { |location| "location: #{location}\r\n" }
        peer.write("HTTP/1.1 #{locations.empty? ? 200 : 302} .\r\n#{locations.join}content-length: 0\r\n\r\n")
      end
    end
    scripted(script) do |server|
      client = Gyre::HTTP::Client.new(server.url, proxy: nil)
      { "/twice" => "/end?x=1", "/comma" => "/a,%20b" }.each { |path, target| assert_equal "#{server.url}#{target}", client.get(path).url }
      assert_equal 302, client.get("/none").status
      %w[/two /hosts].each do |path|
        assert_match(/several addresses/, assert_raises(Gyre::HTTP::Client::RedirectError) { client.get(path) }.message)
      end
      client.close
    end
  end

  def test_names_in_other_scripts_need_a_gem
    error = assert_raises(ArgumentError) { Gyre::HTTP.get("http://B\u00fccher.test/") }
    assert_match(/"b\u00fccher.test" is not an ASCII name: write it as xn--…, or load the gem addressable/, error.message)
    idna = Module.new { def self.to_ascii(name) = name.sub("b\u00fccher", "xn--bcher-kva") }
    Object.const_set(:Addressable, Module.new.tap { |gem| gem.const_set(:IDNA, idna) })
    assert_equal "xn--bcher-kva.test", Origin.split("http://B\u00fccher.test/")[1]
  ensure
    Object.send(:remove_const, :Addressable) if defined?(::Addressable)
  end

  def test_credentials_of_an_address_are_no_form
    seen = nil
    client = Gyre::HTTP::Client.new(->(env) { (seen = env["HTTP_AUTHORIZATION"]) && [200, {}, []] })
    { "a+b:pa+ss%2B%20" => "a+b:pa+ss+ ", "token" => "token:", "a:b:c" => "a:b:c" }.each do |given, sent|
      client.get("http://#{given}@localhost/")
      assert_equal sent, seen.split.last.unpack1("m")
    end
    Gyre::HTTP::Client.new(client.instance_variable_get(:@app), basic: ["token"]).get("/")
    assert_equal "token:", seen.split.last.unpack1("m")
  end

  def test_a_proxy_gets_its_credentials_and_may_say_201
    script = lambda do |peer|
      peer.head.start_with?("CONNECT") ? peer.write("HTTP/1.1 201 Made\r\n\r\n") : peer.write("HTTP/1.1 400 .\r\n\r\n")
      peer.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok") if peer.head
    end
    scripted(script) do |server|
      client = Gyre::HTTP::Client.new(proxy: server.url.sub("//", "//a+b:c%40@"))
      assert_equal "ok", client.get("http://chat.test/", headers: { "Upgrade" => "x", "connection" => "upgrade" }).body
      assert_equal 2, server.heads
      client.close
    end
    scripted(->(peer) { peer.head && peer.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n") }) do |server|
      client = Gyre::HTTP::Client.new(proxy: server.url.sub("//", "//a+b:c%40@"))
      client.get("http://chat.test/")
      client.close
      assert_equal "a+b:c@", server.last_head[/^proxy-authorization: Basic (\S+)/i, 1].unpack1("m")
    end
  end

  def test_a_name_of_another_script_is_refused_with_advice
    skip "the gem addressable is loaded" if defined?(Addressable::IDNA)

    error = assert_raises(ArgumentError) { Gyre::HTTP.get("http://b\u00fccher.test/") }
    assert_match(/not an ASCII name: write it as xn--/, error.message)
  end
end
