# frozen_string_literal: true

# The client over HTTP/2 against servers of others: nghttpd and node, plain and over TLS.

require "test_helper"
require "gyre/http/client"
require "http/client/h2_peer"
require "support/h2_peers"

if GyreTest::H2Peer::AVAILABLE
  class H2ServersTest < Minitest::Test
    NODE = <<~JS
      const http2 = require("http2"), fs = require("fs");
      const handler = (request, response) => {
        if (request.url == "/echo") return request.pipe(response);
        if (request.url == "/big") { for (let i = 0; i < 100; i++) response.write(Buffer.alloc(50000, "x")); return response.end(); }
        if (request.url == "/reset") return response.stream.close(http2.constants.NGHTTP2_REFUSED_STREAM);
        if (request.url == "/leave") { response.stream.session.goaway(); return response.end("last"); }
        if (request.url == "/hints") response.writeEarlyHints({ link: "</a.css>" });
        response.setHeader("set-cookie", ["a=1", "b=2"]);
        response.addTrailers({ "x-sum": "1" });
        response.end(request.method + request.headers[":authority"]);
      };
      const settings = { maxConcurrentStreams: 10 };
      const plain = http2.createServer({ settings }, handler);
      const [cert, key] = process.argv.slice(1).map((path) => fs.readFileSync(path));
      const tls = http2.createSecureServer({ settings, cert, key }, handler);
      plain.listen(0, "127.0.0.1", () => tls.listen(0, "127.0.0.1", () => console.log(plain.address().port, tls.address().port)));
    JS

    def test_nghttpd_serves_pages_and_takes_bodies
      peer = GyreTest::H2Peers.new(:nghttpd, need_program("nghttpd"))
      over_each(peer.ports[:plain], peer.ports[:tls]) do |client, url|
        response = client.get("#{url}/index.html")
        assert_equal [200, "a page of a server\n", "HTTP/2"], [response.status, response.body, response.protocol]
        assert_equal 404, client.get("#{url}/missing").status
        assert_equal 200, client.post("#{url}/", body: "x" * 300_000).status
      end
    ensure
      peer&.close
    end

    def test_node_answers_many_requests_on_one_connection
      with_node do |client, url, task|
        bodies = Array.new(50) { |index| task.async { client.post("#{url}/echo", body: "#{index}-" * 5000).body } }.map(&:wait)
        assert_equal Array.new(50) { |index| "#{index}-" * 5000 }, bodies
        assert_equal 5_000_000, client.get("#{url}/big").body.bytesize
        response = client.get("#{url}/hints")
        assert_equal ["GET#{url[%r{//(.*)}, 1]}", %w[a=1 b=2], { "x-sum" => "1" }],
                     [response.body, response.headers["set-cookie"], response.trailers]
      end
    end

    def test_node_refuses_and_leaves
      with_node do |client, url|
        assert_raises(Gyre::HTTP::Client::Error) { client.get("#{url}/reset") }
        assert_equal "last", client.get("#{url}/leave").body
        assert_match(/\AGET/, client.get("#{url}/").body)
      end
    end

    private

    def over_each(*ports)
      %w[http https].zip(ports).each do |scheme, port|
        Gyre.run do |task|
          client = Gyre::HTTP::Client.new(tls: Gyre::TLS.client(verify: false, alpn: %w[h2 http/1.1]), http2: true)
          yield client, "#{scheme}://127.0.0.1:#{port}", task
        ensure
          client&.close
        end
      end
    end

    def with_node(&block)
      Dir.mktmpdir("gyre-node") do |folder|
        files = GyreTest::Certificates.new(folder).issue("server")
        IO.popen([need_program("node"), "-e", NODE, *files]) do |node|
          over_each(*node.gets.split, &block)
        ensure
          Process.kill(:TERM, node.pid)
        end
      end
    end
  end
end
