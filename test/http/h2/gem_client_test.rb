# frozen_string_literal: true

# A client in Ruby that this project did not write: the http-2 gem, whose frames and HPACK share
# nothing with libnghttp2. It comes with the bundle of rake test:newest_gems.

require "test_helper"
require "support/engines"
require "http/h2/serving"

begin
  require "http/2"
rescue LoadError
  warn "tests: the gem http-2 is not in this bundle; rake test:newest_gems runs its tests"
end

module H2GemClient
  include GyreTest::H2Serving

  # One request.
  def ask(connection, fields, pieces)
    answer = { fields: [], body: +"", over: false }
    stream = connection.new_stream
    stream.on(:headers) { |more| answer[:fields].concat(more.to_a) }
    stream.on(:data) { |piece| answer[:body] << piece }
    stream.on(:close) { |error| answer[:over] = error || true }
    stream.headers(fields, end_stream: pieces.empty?)
    pieces.each_with_index { |piece, index| stream.data(piece, end_stream: index == pieces.size - 1) }
    answer
  end

  def test_many_streams_with_bodies_both_ways
    app = lambda do |env|
      body = env["rack.input"].read
      [200, { "x-path" => env["PATH_INFO"], "set-cookie" => %w[a=1 b=2] }, Array.new(3) { |number| "#{number}#{body}" }.each]
    end
    serve(app) do |served|
      socket = tls? ? GyreTest::H2Client.tls(served.plain_socket) : served.plain_socket
      connection = HTTP2::Client.new
      connection.on(:frame) { |bytes| socket.write(bytes) }
      answers = Array.new(40) do |number|
        fields = { ":method" => "POST", ":scheme" => tls? ? "https" : "http", ":path" => "/#{number}", ":authority" => "a" }
        ask(connection, fields, ["x" * 1000 * number, "end"])
      end
      connection << socket.readpartial(16_384) until answers.all? { |answer| answer[:over] }
      answers.each_with_index do |answer, number|
        body = "#{"x" * 1000 * number}end"
        assert_equal "0#{body}1#{body}2#{body}", answer[:body]
        assert_equal [[":status", "200"], ["x-path", "/#{number}"]], answer[:fields].first(2)
        assert_equal %w[a=1 b=2], answer[:fields].select { |name, _| name == "set-cookie" }.map(&:last)
      end
    ensure
      socket&.close
    end
  end
end

backends = defined?(HTTP2::Client) ? GyreTest::H2Serving::BACKENDS.first(1) : []
GyreTest::Engines.test_case("H2GemClientTest", backends: backends) { include H2GemClient }
GyreTest::Engines.test_case("H2GemClientOverTLSTest", backends: backends) do
  include H2GemClient

  def tls? = true
end
