# frozen_string_literal: true

# Faraday over the client. The gem comes with the bundle of rake test:newest_gems.

require "test_helper"
require "zlib"
require "http/h2/serving"

begin
  require "gyre/http/client/faraday"
rescue LoadError
  warn "tests: the gem faraday is not in this bundle; rake test:newest_gems runs its tests"
end

module FaradayCases
  include GyreTest::H2Serving

  APP = lambda do |env|
    case env["PATH_INFO"]
    when "/echo" then [200, { "x-type" => env["CONTENT_TYPE"].to_s, "set-cookie" => %w[a=1 b=2] }, [env["rack.input"].read]]
    when "/slow" then sleep
    when "/gzip"
      type = URI.decode_www_form_component(env["QUERY_STRING"])
      [200, { "content-encoding" => "gzip", "content-type" => type }, [Zlib.gzip("\u00e4")]]
    when "/moved" then [302, { "location" => "/" }, []]
    when "/pieces" then [200, {}, Enumerator.new { |out| 3.times { |index| out << index.to_s } }]
    else [200, { "content-type" => "text/plain" }, [env.values_at("REQUEST_METHOD", "QUERY_STRING", "HTTP_X_OWN", "HTTP_ACCEPT_ENCODING").join(" ")]]
    end
  end

  def test_requests_bodies_and_streams
    over do |connection|
      response = connection.get("/path", { a: 1 }, { "X-Own" => "b" })
      assert_equal [200, "GET a=1 b #{Gyre::HTTP::Client::Decoders.accepted}", "text/plain"],
                   [response.status, response.body, response.headers["Content-Type"]]
      response = connection.post("/echo", "body", "Content-Type" => "text/x")
      assert_equal ["body", "text/x", "a=1, b=2"], [response.body, response.headers["x-type"], response.headers["set-cookie"]]
      assert_equal "from an IO", connection.put("/echo", StringIO.new("from an IO")).body
      assert_equal 302, connection.get("/moved").status
      pieces = []
      connection.get("/pieces") { |request| request.options.on_data = ->(piece, _size, _env) { pieces << piece } }
      assert_equal "012", pieces.join
    end
  end

  def test_bodies_are_decoded_and_have_an_encoding
    over do |connection|
      { "text/plain" => "UTF-8", "image/png" => "ASCII-8BIT", "image/png; charset=iso-8859-1" => "ISO-8859-1" }.each do |type, encoding|
        response = connection.get("/gzip?#{type}".tr(" ", "")) # the app answers with its query
        assert_equal ["\u00e4".b, encoding, nil], [response.body.b, response.body.encoding.name, response.headers["content-encoding"]]
      end
      response = connection.get("/gzip?a/b", nil, "Accept-Encoding" => "gzip")
      assert_equal [Zlib.gzip("\u00e4"), "gzip"], [response.body, response.headers["content-encoding"]]
    end
  end

  def test_errors_are_faradays
    over do |connection|
      assert_raises(Faraday::TimeoutError) { connection.get("/slow") { |request| request.options.timeout = 0.05 } }
      assert_raises(Faraday::TimeoutError) { connection.get("/slow") { |request| request.options.read_timeout = 0.05 } }
      free = free_port
      assert_raises(Faraday::ConnectionFailed) { connection.get("http://127.0.0.1:#{free}/") }
    end
  end

  private

  def over
    serve(APP) do |served|
      url = "#{tls? ? "https" : "http"}://127.0.0.1:#{served.port}"
      connection = Faraday.new(url: url, ssl: tls? ? { verify: false } : nil) { |faraday| faraday.adapter :gyre }
      Gyre.run { yield connection }
    ensure
      connection&.close
    end
  end
end

if defined?(Faraday)
  class FaradayTest < Minitest::Test
    include FaradayCases
  end

  class FaradayProxyTest < Minitest::Test
    def test_a_proxys_credentials_may_have_any_byte
      adapter = Gyre::HTTP::Client::FaradayAdapter.new(nil)
      address = adapter.send(:proxy, Faraday::ProxyOptions.from(uri: "http://proxy.test:1", user: "a b+", password: "c:@%"))
      proxy = Gyre::HTTP::Client::Proxy
      uri = proxy.for(address, "http", "a.test", 80)
      assert_equal ["a b+", "c:@%"], [proxy.decode(uri.user), proxy.decode(uri.password)]
    end
  end

  # The server sends a word when the client has got the one before.
  class FaradayOpenAITest < Minitest::Test
    include GyreTest::H2Serving

    def test_ruby_openai_gets_each_token_at_once
      require "openai"
      got = Thread::Queue.new
      app = lambda do |env|
        asked = JSON.parse(env["rack.input"].read)
        words = Enumerator.new do |out|
          ["Why?", "because"].each { |word| (out << "data: #{JSON.generate(choices: [{ delta: { content: word } }])}\n\n") && got.pop }
          out << "data: [DONE]\n\n"
        end
        [200, { "content-type" => "text/event-stream", "x-asked" => asked["model"] }, words]
      end
      serve(app) do |served|
        client = OpenAI::Client.new(access_token: "a", uri_base: "http://127.0.0.1:#{served.port}") { |faraday| faraday.adapter :gyre }
        words = []
        take = ->(chunk, _event) { (words << chunk.dig("choices", 0, "delta", "content")) && got << true }
        Gyre.run { client.chat(parameters: { model: "small", messages: [{ role: "user", content: "?" }], stream: take }) }
        assert_equal %w[Why? because], words
      end
    rescue LoadError
      skip "the gem ruby-openai is not in this bundle; rake test:newest_gems runs its test"
    end
  end

  class FaradayOverTLSTest < Minitest::Test
    include FaradayCases

    def test_each_ssl_option_is_obeyed_or_refused
      require "openssl"
      serve(APP) do |served|
        url = "https://localhost:#{served.port}/"
        store = OpenSSL::X509::Store.new.add_cert(OpenSSL::X509::Certificate.new(GyreTest::HTTPServing.identity[:cert]))
        store.flags = OpenSSL::X509::V_FLAG_PARTIAL_CHAIN # it has no authority
        assert_equal 200, get(url, cert_store: store)
        assert_raises(Faraday::SSLError) { get(url, cert_store: OpenSSL::X509::Store.new) }
        assert_equal 200, get(url, cert_store: OpenSSL::X509::Store.new, verify_mode: OpenSSL::SSL::VERIFY_NONE)
        assert_equal 200, get(url, verify: false, min_version: :TLS1_2, max_version: OpenSSL::SSL::TLS1_2_VERSION)
        %i[hostname verify_depth].each { |name| assert_match(/#{name}/, assert_raises(ArgumentError) { get(url, name => 1) }.message) }
        assert_raises(ArgumentError) { get(url, min_version: :TLS9) }
      end
    end

    def tls? = true

    private

    def get(url, **ssl)
      connection = Faraday.new(url, ssl: ssl, proxy: nil) { |faraday| faraday.adapter :gyre }
      connection.get.status
    ensure
      connection&.close
    end
  end
end
