# frozen_string_literal: true

# Clients that this project did not write: curl, nghttp and h2load, plain and over TLS.

require "test_helper"
require "digest"
require "tmpdir"
require "support/engines"
require "http/h2/serving"

module H2Clients
  include GyreTest::H2Serving

  APP = lambda do |env|
    case env["PATH_INFO"]
    when "/digest" then [200, {}, [Digest::SHA256.hexdigest(env["rack.input"].read)]]
    when "/much" then [200, {}, Array.new(30) { |seed| Random.new(seed).bytes(100_000) }.each]
    when "/hints"
      env["rack.early_hints"].call("link" => "</a.css>; rel=preload; as=style")
      [200, {}, ["hello"]]
    else [200, { "x-protocol" => env["SERVER_PROTOCOL"] }, ["hello"]]
    end
  end

  def url(served, path) = "#{tls? ? "https" : "http"}://127.0.0.1:#{served.port}#{path}"

  def curl(served, path, *options)
    program = need_program("curl")
    skip "this curl has no HTTP/2" unless `#{program} --version`.include?("HTTP2")
    Dir.mktmpdir do |folder|
      way = tls? ? %w[-k --http2] : %w[--http2-prior-knowledge]
      result = run_program(program, "-sS", *way, "-D", "#{folder}/head", "-o", "#{folder}/body", *options, url(served, path))
      assert_predicate result.status, :success?, result.err
      return %w[head body].map { |name| File.binread("#{folder}/#{name}") }
    end
  end

  def test_curl_gets_and_uploads
    serve(APP) do |served|
      head, body = curl(served, "/")
      assert_match(%r{\AHTTP/2 200 }, head)
      assert_match(%r{^x-protocol: HTTP/2(\.0)?\r$}, head)
      assert_equal "hello", body
      _, body = curl(served, "/much")
      assert_equal Digest::SHA256.hexdigest((0...30).map { |seed| Random.new(seed).bytes(100_000) }.join), Digest::SHA256.hexdigest(body)
      Dir.mktmpdir do |folder|
        File.binwrite("#{folder}/file", bytes = Random.new(7).bytes(3_000_000))
        assert_equal Digest::SHA256.hexdigest(bytes), curl(served, "/digest", "-T", "#{folder}/file")[1]
        assert_equal Digest::SHA256.hexdigest(bytes), curl(served, "/digest", "--data-binary", "@#{folder}/file", "-H", "expect:")[1]
      end
    end
  end

  def test_curl_sees_early_hints
    serve(APP) do |served|
      head, body = curl(served, "/hints")
      assert_match(%r{\AHTTP/2 103 \r\nlink: </a\.css>; rel=preload; as=style\r\n\r\nHTTP/2 200 }, head)
      assert_equal "hello", body
    end
  end

  def test_nghttp_gets_several_on_one_connection
    serve(APP) do |served|
      result = run_program(need_program("nghttp"), "-nv", "-m", "20", url(served, "/"), url(served, "/much"))
      assert_predicate result.status, :success?, result.out + result.err
      text = result.out.gsub(/\e\[[\d;]*m/, "")
      assert_equal 40, text.scan(/:status: 200/).size
      refute_match(/recv RST_STREAM|recv GOAWAY frame.*\n.*error_code=(?!NO_ERROR)/, text)
      eventually { served.stats[:connections].zero? }
    end
  end

  def test_nghttp_sends_a_body_with_trailers
    serve(->(env) { [200, {}, ["#{env["rack.input"].read.bytesize} #{env["gyre.trailers"]&.call.inspect}"]] }) do |served|
      Dir.mktmpdir do |folder|
        File.write("#{folder}/file", "x" * 100_000)
        result = run_program(need_program("nghttp"), "-d", "#{folder}/file", "--trailer", "x-sum: 7", url(served, "/"))
        assert_equal "100000 #{{ "x-sum" => "7" }.inspect}", result.out
      end
    end
  end

  def test_h2load_gets_only_2xx
    serve(APP) do |served|
      result = run_program(need_program("h2load"), "-n1000", "-c10", "-m10", url(served, "/"))
      assert_match(/requests: 1000 total, 1000 started, 1000 done, 1000 succeeded, 0 failed, 0 errored, 0 timeout/, result.out)
      assert_match(/status codes: 1000 2xx, 0 3xx/, result.out)
      result = run_program(need_program("h2load"), "-n60", "-c3", "-m10", "-w16", "-W20", url(served, "/much"))
      assert_match(/60 succeeded, 0 failed, 0 errored/, result.out)
      eventually { served.stats.values_at(:connections, :running) == [0, 0] }
    end
  end
end

GyreTest::Engines.test_case("H2ClientsTest", backends: GyreTest::H2Serving::BACKENDS.first(1)) { include H2Clients }
GyreTest::Engines.test_case("H2ClientsOverTLSTest", backends: GyreTest::H2Serving::BACKENDS.first(1)) do
  include H2Clients

  def tls? = true
end
