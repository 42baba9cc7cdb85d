# frozen_string_literal: true

# HTTP/2 over TLS with a headless Chromium: many requests at once on one connection, an upload, a
# response that streams, and one that is given up.

require "test_helper"
require "digest"
require "support/chromium"
require "support/engines"
require "http/h2/serving"

class H2BrowserTest < Minitest::Test
  include GyreTest::H2Serving

  def tls? = true

  def test_a_page_and_what_it_fetches
    skip "HTTP/2 is not tested in a browser: no Chromium is installed (apt-get install chromium)" unless Chromium.program
    skip "this build has no HTTP/2" if GyreTest::H2Serving::BACKENDS.empty?

    serve(method(:answer)) do |served|
      Chromium.open do |browser|
        browser.take_any_certificate
        browser.visit("https://localhost:#{served.port}/")
        assert_equal ["h2"], browser.evaluate("[...new Set(performance.getEntries().map((one) => one.nextHopProtocol).filter(Boolean))]")
        fetch_many(browser)
        upload(browser)
        stream(browser)
        assert_empty browser.complaints
      end
      eventually { served.stats.values_at(:connections, :running) == [0, 0] }
    end
  end

  private

  def answer(env)
    case env["PATH_INFO"]
    when "/" then [200, { "content-type" => "text/html" }, ["<!doctype html><title>h2</title><link rel=icon href=data:,><p>hello"]]
    when %r{\A/many/} then [200, { "content-type" => "text/plain" }, [env["SERVER_PROTOCOL"], env["PATH_INFO"]].each]
    when "/digest" then [200, {}, [Digest::SHA256.hexdigest(env["rack.input"].read)]]
    when "/stream" then [200, { "content-type" => "text/plain" }, ->(stream) { 1000.times { |number| stream.write("#{number}\n") && sleep(0.001) } }]
    else [404, {}, []]
    end
  end

  def fetch_many(browser)
    texts = browser.evaluate("Promise.all([...Array(150).keys()].map((n) => fetch(`/many/${n}`).then((r) => r.text())))")
    assert_equal (Array.new(150) { |number| "HTTP/2.0/many/#{number}" }), texts
  end

  def upload(browser)
    digest = browser.evaluate("fetch('/digest', {method: 'POST', body: new Blob([new Uint8Array(2000000).fill(7)])}).then((r) => r.text())")
    assert_equal Digest::SHA256.hexdigest("\a" * 2_000_000), digest
  end

  def stream(browser)
    first = browser.evaluate(<<~JAVASCRIPT)
      fetch('/stream').then(async (response) => {
        const reader = response.body.getReader();
        const first = await reader.read();
        await reader.cancel();
        return new TextDecoder().decode(first.value).split('\\n')[0];
      })
    JAVASCRIPT
    assert_equal "0", first
  end
end
