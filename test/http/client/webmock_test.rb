# frozen_string_literal: true

# WebMock and VCR with the client. The gems come with the bundle of rake test:newest_gems.

require "test_helper"
require "http/serving"
require "tmpdir"

begin
  require "gyre/http/client/webmock"
  require "vcr"
rescue LoadError
  warn "tests: the gems webmock and vcr are not in this bundle; rake test:newest_gems runs their tests"
end

return unless defined?(VCR)

class HTTPClientWebMockTest < Minitest::Test
  include GyreTest::HTTPServing

  def setup
    WebMock.enable!(only: [:gyre])
    WebMock.disable_net_connect!
    @client = Gyre::HTTP::Client.new
  end

  def teardown
    @client.close
    WebMock.reset!
    WebMock.allow_net_connect!
    WebMock.disable!
  end

  def test_stubs_respond_and_others_are_refused
    stub = WebMock.stub_request(:post, "https://api.test/orders?a=1").with(body: "x", headers: { "X-Own" => "1" })
                  .to_return(status: 201, body: "made", headers: { "Set-Cookie" => %w[a=1 b=2], "X-B" => "c" })
    response = @client.post("https://api.test/orders", "x", query: { a: 1 }, headers: { "x-own" => "1" })
    assert_equal [201, "made", %w[a=1 b=2], "c"], [response.status, response.body, response["set-cookie"], response["x-b"]]
    WebMock::RequestRegistry.instance.times_executed(stub.request_pattern).then { |count| assert_equal 1, count }
    VCR.turned_off { assert_raises(WebMock::NetConnectNotAllowedError) { @client.get("https://api.test/other") } } # hooked by the other test
    WebMock.stub_request(:get, "https://api.test/late").to_timeout
    assert_raises(Gyre::HTTP::Client::TimeoutError) { @client.get("https://api.test/late") }
  end

  def test_a_stub_sees_bodies_that_come_in_pieces
    WebMock.stub_request(:put, "http://files.test/a").with(body: "bytes").to_return(body: "stored")
    [StringIO.new("bytes"), %w[by tes].each].each { |body| assert_equal "stored", @client.put("http://files.test/a", body).body }
    failing = Enumerator.new { |out| (out << "by") && raise(IOError, "no disk") }
    assert_equal "no disk", assert_raises(IOError) { @client.put("http://files.test/a", failing) }.message
  end

  def test_vcr_records_and_plays
    Dir.mktmpdir do |folder|
      VCR.configure { |config| (config.cassette_library_dir = folder) && config.hook_into(:webmock) }
      answers = 0
      serve(->(_env) { [200, { "x-number" => (answers += 1).to_s }, ["hello"]] }) do |served|
        seen = Array.new(2) do
          response = VCR.use_cassette("one") { @client.get("http://127.0.0.1:#{served.port}/") }
          [response.body, response["x-number"]]
        end
        assert_equal [[%w[hello 1]] * 2, 1], [seen, answers]
      end
    end
  end
end
