# frozen_string_literal: true

require "test_helper"
require "http/client/scripted_server"
require "http/serving"
require_relative "../../../examples/reverse_proxy"

# examples/reverse_proxy.rb between raw clients and scripted services: what passes, and what does
# not.
class ReverseProxyTest < Minitest::Test
  include GyreTest::HTTPServing
  include GyreTest::ScriptedServer

  HELLO = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: x-inner\r\nX-Inner: secret\r\nKeep-Alive: timeout=5\r\nX-A: b\r\n\r\nhello"

  def test_a_request_and_its_response_pass_without_the_fields_of_one_connection
    proxied(->(peer) { peer.write(HELLO) while peer.head }) do |client, service|
      response = client.get("GET /a/b?c=d HTTP/1.1", connection: "x-hop, keep-alive", x_hop: "no", x_b: "yes", cookie: "e=f")
      assert_equal [200, "hello", "b", nil, nil], [response.status, response.body, response["x-a"], response["x-inner"], response["keep-alive"]]
      assert_match(%r{\AGET /a/b\?c=d HTTP/1.1\r\nhost: gyre.test\r\n}, service.last_head)
      assert_match(/^x-b: yes\r\n.*^x-forwarded-for: 127.0.0.1\r\nx-forwarded-proto: http\r\nx-forwarded-host: gyre.test\r\n/m, service.last_head)
      assert_match(/^cookie: e=f\r$/, service.last_head)
      refute_match(/x-hop|^connection|keep-alive|accept|user-agent|transfer-encoding/, service.last_head)
    end
  end

  def test_a_question_about_the_whole_server_stays_one
    proxied(->(peer) { peer.head && peer.write(HELLO) }) do |client, service|
      assert_equal 200, client.get("OPTIONS * HTTP/1.1").status
      assert_match(%r{\AOPTIONS \* HTTP/1.1\r\n}, service.last_head)
    end
  end

  def test_bodies_stream_in_both_directions
    proxied(->(peer) { peer.head && peer.write(HELLO) }) { |client| assert_equal 200, client.get("POST / HTTP/1.1", "abc", content_length: 3).status }
    service_body = Queue.new
    counting = ->(peer) { peer.head && service_body.push(peer.read(200_000)) && peer.write(HELLO) }
    proxied(counting) { |client| assert_equal 200, client.get("PUT / HTTP/1.1", "x" * 200_000, content_length: 200_000).status }
    assert_equal 200_000, service_body.pop.bytesize
  end

  def test_a_long_response_streams
    rows = "row\r\n" * 100_000
    proxied(->(peer) { peer.head && peer.write("HTTP/1.1 200 OK\r\nContent-Length: #{rows.bytesize}\r\n\r\n#{rows}") }) do |client|
      assert_equal rows, client.get.body
    end
  end

  def test_a_chunked_request_is_framed_again
    proxied(->(peer) { peer.head && peer.read(15) && peer.write(HELLO) }) do |client, service|
      client.get("POST / HTTP/1.1", "5;ext=1\r\nhello\r\n0\r\nX-Trailer: a\r\n\r\n", transfer_encoding: "chunked")
      assert_match(/^transfer-encoding: chunked\r$/, service.last_head)
      refute_match(/content-length|trailer/i, service.last_head)
    end
  end

  # What one side could read in two ways reaches no other.
  SMUGGLED = {
    "both framings" => "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\n\r\n",
    "two lengths" => "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 30\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n",
    "another coding" => "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\n\r\n",
    "a space before the colon" => "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\n\r\n",
    "a bare line feed" => "POST / HTTP/1.1\r\nHost: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\n\r\n",
    "a folded line" => "POST / HTTP/1.1\r\nHost: a\r\nX: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\n\r\n"
  }.freeze

  def test_ambiguous_requests_reach_no_service
    proxied(->(peer) { peer.write(HELLO) while peer.head }) do |client, service, served|
      SMUGGLED.each_value do |bytes|
        other = connect(served)
        assert_operator other.write(bytes).response.status, :>=, 400
      end
      assert_equal 0, service.heads
      assert_equal 200, client.get.status
    end
  end

  def test_a_framing_field_named_by_connection_changes_no_framing
    proxied(->(peer) { peer.head && peer.read(5) && peer.write(HELLO) }) do |client, service|
      assert_equal 200, client.get("POST / HTTP/1.1", "hello", connection: "content-length", content_length: 5).status
      assert_match(/^(content-length: 5|transfer-encoding: chunked)\r$/, service.last_head)
    end
  end

  def test_ambiguous_responses_are_errors_and_nothing_of_them_reaches_the_next_client
    evil = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    first = [evil, "#{HELLO}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", HELLO]
    proxied(->(peer) { peer.write(first.shift || HELLO) while peer.head }, errors: /both|Content-Length/) do |client|
      assert_equal 502, client.get.status
      assert_equal %w[hello hello hello], Array.new(3) { client.get.body }
    end
  end

  def test_a_service_that_cannot_be_reached_is_502
    port = free_port
    with_proxy("http://127.0.0.1:#{port}", errors: /refused/) { |client| assert_equal 502, client.get.status }
  end

  def test_an_upgrade_goes_through
    script = lambda do |peer|
      next unless peer.head.include?("upgrade: echo")

      peer.write("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\nX-Key: 1\r\n\r\nready")
      peer.write(peer.read(4).upcase)
    end
    proxied(script) do |client|
      response = client.request("GET /socket HTTP/1.1", connection: "upgrade", upgrade: "echo").response
      assert_equal [101, "echo", "1"], [response.status, response["upgrade"], response["x-key"]]
      assert_equal "ready", client.take(5)
      assert_equal "PING", client.write("ping").take(4)
      assert_predicate client, :ended?
    end
  end

  private

  def proxied(script, **options)
    scripted(script) { |service| with_proxy(service.url, **options) { |client, served| yield client, service, served } }
  end

  def with_proxy(url, errors: nil)
    proxy = ReverseProxy.new(url)
    serve(proxy) do |served|
      yield connect(served), served
      assert_match errors, served.errors.shift.to_s if errors && served.errors.any?
    end
  ensure
    proxy&.close
  end
end
