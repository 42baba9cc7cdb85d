# frozen_string_literal: true

require "test_helper"
require "gyre/http/client"
require "support/async_gems"
require "support/helpers"
require "tmpdir"

# The client against Puma and Falcon, in tasks and in a plain thread.
class HTTPClientRubyServersTest < Minitest::Test
  include GyreTest::AsyncGems

  APP = <<~'RUBY'
    run(lambda do |env|
      case env["PATH_INFO"]
      when "/pieces" then [200, {}, Enumerator.new { |out| 100.times { |index| out << "#{index}," } }]
      when "/big" then [200, { "content-length" => "5000000" }, ["x" * 5_000_000]]
      when "/cookies" then [200, { "set-cookie" => ["a=1", "b=2"] }, []]
      when "/moved" then [302, { "location" => "/pieces" }, []]
      when "/empty" then [204, {}, []]
      else [200, {}, ["#{env["REQUEST_METHOD"]} #{env["rack.input"]&.read.to_s.bytesize}"]]
      end
    end)
  RUBY

  def test_puma_over_http1
    with_server("puma", ->(port, file) { ["-b", "tcp://127.0.0.1:#{port}", "-t", "1:4", "-e", "production", file] }) do |url|
      exercise(url, "HTTP/1.1")
    end
  end

  def test_falcon_over_http1_and_http2
    with_server("falcon", ->(port, file) { ["serve", "--bind", "http://127.0.0.1:#{port}", "--count", "1", "--config", file] }) do |url|
      exercise(url, "HTTP/1.1")
      exercise(url, "HTTP/2", http2: true)
    end
  end

  private

  def exercise(url, protocol, **options)
    client = Gyre::HTTP::Client.new(url, proxy: nil, timeout_s: 60, **options)
    visit(client, protocol)
    Gyre.run do |task|
      visit(client, protocol)
      sent = Array.new(20) { |index| task.async { client.post("/", "x" * (index * 10_000)).body } }.map(&:wait)
      assert_equal Array.new(20) { |index| "POST #{index * 10_000}" }, sent
    end
  ensure
    client&.close
  end

  def visit(client, protocol)
    assert_equal [protocol, "GET 0"], client.get("/").then { |response| [response.protocol, response.body] }
    assert_equal "PUT 300000", client.put("/", ["y" * 100_000] * 3).body
    assert_equal "0,1,2,", client.get("/moved").body[0, 6]
    assert_equal 5_000_000, client.get("/big").body.bytesize
    assert_equal [%w[a=1 b=2], 204, ""], [client.get("/cookies")["set-cookie"], client.get("/empty").status, client.head("/big").body]
    client.get("/big") { |response| assert_operator response.each.next.bytesize, :>, 0 } # the rest is dropped
    assert_equal "DELETE 0", client.delete("/").body
  end

  def with_server(name, arguments)
    need_async
    Dir.mktmpdir("gyre-#{name}") do |folder|
      File.write(file = File.join(folder, "config.ru"), APP)
      port = free_port
      command = async_command("-W0", "-S", name, *arguments[port, file])
      pid = spawn(*command, out: "#{folder}/log", err: "#{folder}/log", chdir: folder)
      eventually(within_s: 60) { TCPSocket.open("127.0.0.1", port, &:close) || true rescue nil }
      yield "http://127.0.0.1:#{port}"
    ensure
      Process.kill(:TERM, pid) if pid # ends Falcon's worker, too
      Process.wait(pid) if pid
    end
  end
end
