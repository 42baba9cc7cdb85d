# frozen_string_literal: true

# Clients and apps of HTTP/2 that do whatever they may, all at once: streams of a connection are
# read, written, reset, interrupted and closed in any order, from fibers and threads, plain and over
# TLS. What was answered whole is right, nothing is left behind, and the server goes on.

require "test_helper"
require "support/engines"
require "support/stress"
require "http/h2/serving"

storm = lambda do
  include GyreTest::H2Serving
  include GyreTest::Stress

  # An app whose path says what it does: letters, one after the other.
  app = lambda do |env|
    exchange = env["rack.early_hints"]
    deeds = env["PATH_INFO"].delete("/").chars
    deeds.each do |deed|
      case deed
      when "s" then sleep(0.0005)
      when "r" then env["rack.input"].read(1000)
      when "h" then exchange.call("link" => "<a>")
      when "t" then Thread.new { env["rack.input"].read(10) }.join
      when "x" then raise "trouble"
      when "c" then exchange.close
      when "z" then exchange.reset
      end
    end
    pieces = Integer(env["QUERY_STRING"])
    body = case deeds.last
           when "e" then Enumerator.new { |parts| pieces.times { |number| parts << number.to_s * 500 } }
           when "w" then lambda { |stream|
             pieces.times { |number| stream.write(number.to_s * 500) }
             stream.close
           }
           when "b" then lambda { |stream|
             stream.write("begun")
             raise "in the body"
           }
           else Array.new(pieces) { |number| number.to_s * 500 }
           end
    [200, {}, body]
  end

  # One connection's client: some streams at a time, each of which ends in one way or another.
  define_method(:client_storm) do |served, random, rounds|
    answered = 0
    client = connect(served, settings: { initial_window_size: [100, 5000, 65_535].sample(random: random) })
    rounds.times do
      streams = Array.new(random.rand(1..8)) { begin_stream(client, random) }
      streams.each { |stream, *| stream.reset if random.rand(6).zero? && !stream.over? }
      client.write(GyreTest::H2.ping("stormful")) if random.rand(4).zero?
      break client.reset if random.rand(40).zero?

      GC.start if random.rand(20).zero?
      answered += streams.count { |stream, pieces, sound| ended_well?(client, stream, pieces, sound) }
    end
    answered
  ensure
    client.close unless client.nil? || client.closed?
  end

  define_method(:begin_stream) do |client, random|
    sound = random.rand(3).positive?
    deeds = Array.new(random.rand(4)) { (sound ? %w[s r h t] : %w[s r h t x c z]).sample(random: random) }.join
    deeds += (sound ? ["e", "w", "", ""] : %w[e w b]).sample(random: random)
    pieces = random.rand(30)
    body = "x" * random.rand(3000) if random.rand(2).zero?
    stream = client.open("POST /#{deeds}?#{pieces}", end_stream: body.nil?)
    stream.write(body, end_stream: random.rand(15).positive?) if body
    [stream, pieces, sound]
  end

  # Waits for the stream's end, which is a reset by either side, or what it is to be.
  define_method(:ended_well?) do |client, stream, pieces, sound|
    client.wait(within_s: GyreTest::H2Client::PATIENCE_S) { stream.over? || client.closed? }
    return false if stream.error || !stream.ended? || stream.status != 200 || !sound

    assert_equal Array.new(pieces) { |number| number.to_s * 500 }.join, stream.response.body
    true
  end

  define_method(:test_streams_that_do_whatever_they_may) do
    serve(app, limits: { read_timeout_s: 0.1, write_timeout_s: 0.5, stream_resets_limit: 100_000, control_frames_limit: 100_000 }) do |served|
      clients = Array.new(8) do |number|
        Thread.new do
          Thread.current.report_on_exception = false
          Array.new(amount(2)) { |round| client_storm(served, random(number * 10_000 + round), 10) }
        end
      end
      answered = clients.flat_map(&:value).sum
      assert_operator answered, :>, 50
      eventually { served.stats.values_at(:connections, :running) == [0, 0] }
      assert_equal 200, get(served, "GET /?1").status
      served.errors.reject! { |line| line.match?(/trouble|in the body|EPIPE|RequestCut|408|IOError/) }
    end
  end
end

GyreTest::Engines.test_case("H2StreamsStress", backends: GyreTest::H2Serving::BACKENDS, &storm)
GyreTest::Engines.test_case("H2StreamsOverTLSStress", backends: GyreTest::H2Serving::BACKENDS) do
  class_exec(&storm)
  define_method(:tls?) { true }
end
