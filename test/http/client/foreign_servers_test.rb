# frozen_string_literal: true

require "test_helper"
require "gyre/http/client"
require "http/serving"
require "tmpdir"

# The client against servers of others: nginx and node.
class HTTPClientForeignServersTest < Minitest::Test
  NODE = <<~JAVASCRIPT
    const server = require("http").createServer((request, response) => {
      let body = "";
      request.on("data", (piece) => body += piece);
      request.on("end", () => {
        if (request.url === "/chunks") { response.write("a"); response.write("b"); return response.end("c"); }
        if (request.url === "/hints") response.writeEarlyHints({ link: "</a>; rel=preload" });
        response.setHeader("x-body", body.length);
        response.end(request.method + " " + (request.headers["transfer-encoding"] || request.headers["content-length"] || "none"));
      });
    });
    server.listen(0, "127.0.0.1", () => console.log(server.address().port));
  JAVASCRIPT

  def test_nginx_over_http1_tls_and_http2
    nginx = need_program("nginx")
    Dir.mktmpdir("gyre") do |folder|
      plain, tls = Array.new(2) { free_port }
      with_program([nginx, "-p", folder, "-c", configuration(folder, plain, tls), "-e", "#{folder}/errors"], plain) do
        context = Gyre::TLS.client(verify: false, alpn: %w[h2 http/1.1])
        { "http://127.0.0.1:#{plain}" => "HTTP/1.1", "https://127.0.0.1:#{tls}" => "HTTP/2" }.each do |url, protocol|
          client = Gyre::HTTP::Client.new(url, tls: context, proxy: nil)
          Gyre.run { exercise_nginx(client, protocol) }
          exercise_nginx(client, protocol)
        ensure
          client&.close
        end
      end
    end
  end

  # nginx ends a connection by GOAWAY after keepalive_requests, whatever is on its way.
  def test_posts_to_nginx_that_goaway_refuses_are_sent_again_and_none_twice
    nginx = need_program("nginx")
    Dir.mktmpdir("gyre") do |folder|
      plain, tls = Array.new(2) { free_port }
      with_program([nginx, "-p", folder, "-c", configuration(folder, plain, tls), "-e", "#{folder}/errors"], plain) do
        client = Gyre::HTTP::Client.new("https://127.0.0.1:#{tls}", tls: Gyre::TLS.client(verify: false, alpn: %w[h2]), proxy: nil)
        ids = Array.new(600, &:to_s)
        left = ids.dup
        statuses = Gyre.run do |task|
          posts = -> { (id = left.shift) ? [client.post("/order?id=#{id}", "x" * 2000).status, *posts.call] : [] }
          Array.new(20) { task.async { posts.call } }.flat_map(&:wait)
        ensure
          client.close
        end
        assert_equal({ 204 => ids.size }, statuses.tally)
        eventually { File.readlines("#{folder}/orders", chomp: true).size >= ids.size }
        assert_equal ids.sort, File.readlines("#{folder}/orders", chomp: true).sort
      end
    end
  end

  def test_node
    node = need_program("node")
    IO.popen([node, "-e", NODE]) do |program|
      client = Gyre::HTTP::Client.new("http://127.0.0.1:#{program.gets.to_i}", proxy: nil)
      hints = []
      assert_equal "GET none", client.get("/").body
      assert_equal "POST chunked", client.post("/", %w[a b].each).body
      assert_equal ["PUT 3", "3"], client.put("/", "abc").then { |response| [response.body, response["x-body"]] }
      assert_equal "abc", client.get("/chunks").body
      client.get("/hints", interim: ->(status, _headers) { hints << status })
      assert_empty hints - [103] # since node 18
    ensure
      client&.close
      Process.kill(:KILL, program.pid)
    end
  end

  private

  def exercise_nginx(client, protocol)
    assert_equal [protocol, "x" * 100_000], client.get("/file").then { |response| [response.protocol, response.body] }
    assert_equal "xxxx", client.get("/file", headers: { "range" => "bytes=0-3" }).body
    assert_equal 404, client.get("/missing").status
    assert_equal 204, client.put("/up", "y" * 300_000).status
    assert_equal 204, client.put("/up", (["y" * 50_000] * 6).each).status
    assert_equal 200, client.get("/moved").status
    assert_equal "", client.head("/file").body
    assert_equal "x" * 100_000, client.get("/zipped/file").body
  end

  def with_program(command, port)
    pid = spawn(*command, out: File::NULL, err: File::NULL)
    eventually { TCPSocket.open("127.0.0.1", port, &:close) || true rescue false }
    yield
  ensure
    Process.kill(:TERM, pid)
    Process.wait(pid)
  end

  def configuration(folder, plain, tls)
    FileUtils.mkdir_p("#{folder}/zipped")
    File.write("#{folder}/zipped/file", "x" * 100_000)
    File.write("#{folder}/file", "x" * 100_000)
    File.write("#{folder}/pem", GyreTest::HTTPServing.identity.values_at(:cert, :key).join)
    File.write("#{folder}/nginx.conf", <<~CONFIGURATION)
      #{"user root;" if Process.uid.zero?}
      daemon off; pid #{folder}/pid; worker_processes 1;
      events { }
      http {
        access_log off; default_type text/plain; log_format id $arg_id;
        #{%w[client_body proxy fastcgi uwsgi scgi].map { |name| "#{name}_temp_path #{folder}/tmp;" }.join}
        server {
          listen 127.0.0.1:#{plain}; listen 127.0.0.1:#{tls} ssl http2;
          ssl_certificate #{folder}/pem; ssl_certificate_key #{folder}/pem;
          root #{folder}; client_max_body_size 0; keepalive_requests 20;
          location = /up { return 204; }
          location = /order { access_log #{folder}/orders id; return 204; }
          location = /moved { return 301 /file; }
          location /zipped/ { gzip on; gzip_types text/plain; gzip_min_length 1; }
        }
      }
    CONFIGURATION
    "#{folder}/nginx.conf"
  end
end
