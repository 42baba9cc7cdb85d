# frozen_string_literal: true

# The parsers' cases once more, over the wire: they get the status that the parsers give, end their
# connection, and serves others all the while. Each case runs on each native backend.

require "test_helper"
require "support/engines"
require "http/cases"
require "http/serving"

module HTTP1Corpus
  include GyreTest::HTTPServing

  USUAL = HTTPCases::ALL.select { |one| one.input.limits == HTTPVerdicts::USUAL_LIMITS }
  HEADS, BODIES = USUAL.partition { |one| one.input.kind == "h" }

  # What came back: a status, or nil when the connection ended without a response.
  def status_for(served, bytes)
    client = connect(served)
    begin
      client.write(bytes)
      client.socket.shutdown(:WR)
    rescue Errno::EPIPE, Errno::ECONNRESET, Errno::ENOTCONN
      nil # refused before all of it was sent
    end
    text = client.rest
    client.close
    text[%r{\AHTTP/1\.1 (\d+) }, 1]&.to_i
  end

  def expected_status(one, statuses)
    statuses.fetch(one.expected["verdict"]) { one.expected["status"] }
  end

  def limits(line, bytes, count)
    { request_line_bytes_limit: line, header_bytes_limit: bytes, trailer_bytes_limit: bytes, header_count_limit: count }
  end

  # A connection that is used between the cases: nothing may ever happen to it.
  def with_bystander(served)
    client = connect(served)
    yield
    assert_equal 200, client.get("GET /bystander HTTP/1.1", connection: "close").status
  end

  def test_heads_get_what_the_parser_says
    app = ->(env) { [env["PATH_INFO"] == "/bystander" ? 200 : 299, { "connection" => "close" }, []] }
    serve(app, limits: limits(*HTTPVerdicts::USUAL_LIMITS)) do |served|
      with_bystander(served) do
        HEADS.each do |one|
          next if one.name == "the preface of HTTP/2" && Gyre::HTTP::H2.available?

          expected = expected_status(one, "complete" => 299, "incomplete" => nil)
          expected = 413 if expected == 299 && one.input.bytes[/^content-length: *(\d+)/i, 1].to_i > 64 * 1024 * 1024
          actual = status_for(served, one.input.bytes)
          assert_equal [expected], [actual], "#{one.name}: #{one.input.bytes[0, 300].inspect}"
        end
      end
    end
  end

  def test_bodies_get_what_the_decoder_says
    read = nil
    app = lambda do |env|
      read = env["rack.input"].read if env["PATH_INFO"] != "/bystander"
      [200, { "connection" => "close" }, []]
    end
    serve(app, limits: limits(*HTTPVerdicts::USUAL_LIMITS)) do |served|
      with_bystander(served) do
        BODIES.each do |one|
          read = nil
          actual = status_for(served, "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n".b + one.input.bytes)
          expected = expected_status(one, "complete" => 200, "incomplete" => 400)
          assert_equal [expected], [actual], "#{one.name}: #{one.input.bytes[0, 300].inspect}"
          assert_equal one.expected["data"], read, one.name if expected == 200
        end
      end
    end
  end

  def test_bytes_by_chance_end_their_own_connection_only
    serve(->(_env) { [200, { "connection" => "close" }, []] }, limits: { read_timeout_s: 1 }) do |served|
      random = Random.new(Minitest.seed || 1)
      with_bystander(served) do
        200.times do
          case random.rand(3)
          when 0 then status_for(served, random.bytes(random.rand(1..2000)))
          when 1 then status_for(served, (HEADS.sample(random: random).input.bytes + random.bytes(20)))
          else
            bytes = HEADS.sample(random: random).input.bytes.dup
            bytes.setbyte(random.rand(bytes.bytesize), random.rand(256)) unless bytes.empty?
            status_for(served, bytes)
          end
        end
      end
    end
  end
end

GyreTest::Engines.test_case("HTTP1CorpusTest", backends: GyreTest::Engines::NATIVE) { include HTTP1Corpus }
