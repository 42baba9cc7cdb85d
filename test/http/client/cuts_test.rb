# frozen_string_literal: true

require "test_helper"
require "gyre/http/client"
require "http/h2/serving"
require "http/serving"
require "support/fault_relay"

# A connection that is cut after each byte of the server's: an error, or the whole response, and no
# connection is left.
class HTTPClientCutsTest < Minitest::Test
  include GyreTest::HTTPServing

  BODY = Array.new(3) { |index| "piece #{index}" }
  APP = ->(env) { [200, env["PATH_INFO"] == "/sized" ? { "content-length" => BODY.join.bytesize.to_s } : {}, BODY] }
  FAULTS = %i[fin close reset].freeze

  def test_http1_with_a_length_and_in_chunks
    serve(APP) { |served| %w[/sized /chunks].each { |path| cut_after_each_byte("http", served.port, path, 1) } }
  end

  def test_tls
    @tls = true
    serve(APP, identity: GyreTest::HTTPServing.identity) { |served| cut_after_each_byte("https", served.port, "/chunks", 61) }
  end

  unless GyreTest::H2Serving::BACKENDS.empty?
    def test_http2
      serve(APP) { |served| cut_after_each_byte("http", served.port, "/chunks", 1, http2: true) }
    end
  end

  private

  def tls? = @tls

  def cut_after_each_byte(scheme, port, path, step, **options)
    options[:tls] = Gyre::TLS.client(verify: false) if scheme == "https"
    after = whole = 0
    until whole > 1
      whole += 1 if fetch(scheme, port, path, after, options) == BODY.join
      after += step
    end
    assert_operator after, :>, 60
  end

  # Returns the body; the error if there is none.
  def fetch(scheme, port, path, after, options)
    relay = GyreTest::FaultRelay.new("127.0.0.1:#{port}", cut: 1, after: after, fault: FAULTS[after % 3])
    client = Gyre::HTTP::Client.new("#{scheme}://#{relay.address}", proxy: nil, connections_limit: 1, head_timeout_s: 30, **options)
    Gyre.run do
      client.get(path).body
    rescue Gyre::HTTP::Client::ConnectionError, Gyre::HTTP::Client::ProtocolError => error
      assert_equal 0, client.instance_variable_get(:@homes).values.flat_map(&:pools).sum { |pool| pool.open.size }, error.message
      error
    end
  ensure
    client&.close
    relay&.close
  end
end
