# frozen_string_literal: true

require "test_helper"
require "http/client/contract"
require "http/h2/serving"

# The client's contract over each protocol, in tasks and in plain threads, and with a Rack app.
module HTTPClientContractTest
  # An app behind Gyre's own server.
  module Served
    include GyreTest::HTTPClientContract

    def reach(app, **options)
      identity = GyreTest::HTTPServing.identity
      serve(app, identity: alpn ? { **identity, alpn: alpn } : identity) do |served|
        options[:tls] = Gyre::TLS.client(verify: false, alpn: alpn || []) if tls?
        client = Gyre::HTTP::Client.new("http#{"s" if tls?}://localhost:#{served.port}", proxy: nil, connect_timeout_s: 60, **options)
        within { yield client }
      ensure
        client&.close
      end
    end

    def test_the_protocol_is_the_expected_one
      reach(GyreTest::HTTPClientContract::ECHO) { |client| assert_equal expected, client.get("/").protocol }
    end

    def expected = "HTTP/1.1"
    def alpn = nil
    def within = yield
  end

  # Within a loop.
  module InTasks
    def within(&block) = Gyre.run { block.call }
    def at_once(count, &block) = Gyre::Task.current.then { |task| Array.new(count) { |index| task.async { block.call(index) } }.map(&:wait) }
  end

  class HTTP1Test < Minitest::Test
    include Served
    include InTasks
  end

  class PlainThreadTest < Minitest::Test
    include Served
  end

  class TLSTest < Minitest::Test
    include Served
    include InTasks
    def tls? = true

    def test_the_error_of_an_unknown_authority_tells_how_to_add_it
      serve(ECHO, identity: GyreTest::HTTPServing.identity) do |served|
        client = Gyre::HTTP::Client.new("https://localhost:#{served.port}", proxy: nil)
        error = within { assert_raises(Gyre::HTTP::Client::ConnectionError) { client.get("/") } }
        assert_match(/certificate verify failed.*tls: Gyre::TLS.client\(ca: path\)/, error.message)
      end
    end
  end

  unless GyreTest::H2Serving::BACKENDS.empty?
    # By ALPN.
    class HTTP2Test < Minitest::Test
      include Served
      include InTasks
      def tls? = true
      def expected = "HTTP/2"
      def alpn = %w[h2 http/1.1]
    end

    # Agreed beforehand.
    class HTTP2WithoutTLSTest < Minitest::Test
      include Served
      include InTasks
      def expected = "HTTP/2"
      def reach(app, **options, &block) = super(app, http2: true, **options, &block)

      def test_a_close_below_requests_counts_no_place_twice
        gate = Thread::Queue.new
        reach(->(_) { (gate.pop || true) && [200, {}, []] }, retries_limit: 0) do |client|
          running = Array.new(2) { Gyre::Task.current.async { client.post("/") rescue $! } }
          Gyre::Task.current.yield until gate.num_waiting == 2
          client.close
          running.each { |request| assert_kind_of Gyre::HTTP::Client::ConnectionError, request.wait }
          assert_equal [0], client.instance_variable_get(:@homes).values.flat_map(&:pools).map { |pool| pool.open.size }
        ensure
          gate.close
        end
      end
    end

    class HTTP2InPlainThreadTest < Minitest::Test
      include Served
      def expected = "HTTP/2"
      def reach(app, **options, &block) = super(app, http2: true, **options, &block)
    end
  end

  class AppTest < Minitest::Test
    include GyreTest::HTTPClientContract

    def reach(app, **options) = yield(Gyre::HTTP::Client.new(app, **options))
  end
end
