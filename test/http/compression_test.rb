# frozen_string_literal: true

# Compressed responses: Gyre::HTTP::Compression, alone and over real connections.

require "test_helper"
require "http/serving"
require "gyre/http/compression"

class HTTPCompressionTest < Minitest::Test
  include GyreTest::HTTPServing

  TEXT = ("a line of text\n" * 500).freeze
  PLAIN = { "content-type" => "text/plain" }.freeze

  def test_a_body_of_text_is_compressed_for_a_client_that_takes_it
    status, headers, body = call([TEXT])
    assert_equal [200, "gzip", "accept-encoding", body.bytesize.to_s], [status, *headers.values_at("content-encoding", "vary", "content-length")]
    assert_equal TEXT, Zlib.gunzip(body)
    assert_operator body.bytesize, :<, 500
  end

  def test_other_clients_get_it_as_it_is_and_caches_learn_of_both
    _, headers, body = call([TEXT], accept: nil)
    assert_equal [nil, "accept-encoding", TEXT], [headers["content-encoding"], headers["vary"], body]
    assert_equal TEXT, call([TEXT], accept: "gzip;q=0")[2]
  end

  # Headers of responses that stay as they are.
  LEFT = {
    "an image" => { "content-type" => "image/png" }, "no type" => { "content-type" => nil }, "events" => { "content-type" => "text/event-stream" },
    "compressed before" => { "content-encoding" => "br" }, "no-transform" => { "cache-control" => "public, No-Transform" },
    "a part" => { "content-range" => "bytes 0-1/2" }, "known to be small" => { "content-length" => "20" },
    "a hijack" => { "rack.hijack" => -> {} }, "an upgrade" => { "rack.protocol" => "x" }, "chunks of its own" => { "transfer-encoding" => "chunked" }
  }.freeze

  def test_unfit_responses_are_left_as_they_are
    LEFT.each do |name, headers|
      fields = PLAIN.merge(headers)
      status, got, body = call([TEXT], headers: fields)
      assert_equal [200, fields, TEXT], [status, got, body], name
    end
  end

  def test_small_bodies_and_statuses_without_one_stay_unchanged
    assert_equal [PLAIN, "small"], call(["small"]).drop(1)
    [204, 304, 206].each { |status| assert_equal PLAIN, call([TEXT], status: status)[1], status.to_s }
  end

  def test_an_etag_becomes_weak_and_ranges_go
    headers = call([TEXT], headers: PLAIN.merge("etag" => '"a"', "accept-ranges" => "bytes"))[1]
    assert_equal ['W/"a"', nil], headers.values_at("etag", "accept-ranges")
    assert_equal 'W/"a"', call([TEXT], headers: PLAIN.merge("etag" => 'W/"a"'))[1]["etag"]
  end

  def test_vary_is_added_to
    assert_equal "cookie, accept-encoding", call([TEXT], headers: PLAIN.merge("Vary" => "cookie"))[1]["vary"]
    assert_equal "Accept-Encoding", call([TEXT], headers: PLAIN.merge("vary" => "Accept-Encoding"))[1]["vary"]
    assert_equal "*", call([TEXT], headers: PLAIN.merge("vary" => "*"))[1]["vary"]
  end

  def test_head_has_the_fields_of_get_but_its_length
    status, headers, body = call([], method: "HEAD", headers: PLAIN.merge("content-length" => "9000", "etag" => '"a"'))
    assert_equal [200, "gzip", nil, 'W/"a"', ""], [status, *headers.values_at("content-encoding", "content-length", "etag"), body]
  end

  def test_files_are_left_to_sendfile
    body = ["x" * 9000]
    body.define_singleton_method(:to_path) { __FILE__ }
    assert_equal PLAIN, call(body)[1]
  end

  def test_each_part_leaves_at_once
    go = Thread::Queue.new
    body = Enumerator.new do |parts|
      parts << "first part" << ""
      go.pop
      parts << "second part"
    end
    serve(compression(body)) do |served|
      client = connect(served).request(accept_encoding: "gzip")
      assert_match(/content-encoding: gzip/, client.take_through("\r\n\r\n"))
      inflate = Zlib::Inflate.new(Zlib::MAX_WBITS + 16)
      text = +""
      text << inflate.inflate(client.chunk) until text == "first part"
      go << true
      while (chunk = client.chunk)
        text << inflate.inflate(chunk)
      end
      assert_equal ["first partsecond part", true], [text, inflate.finished?]
    ensure
      inflate&.close
    end
  end

  def test_a_stream_that_the_app_writes_to_stays_as_it_is
    serve(compression(->(stream) { stream.write("one ", stream.gets) })) do |served|
      response = connect(served).get("POST / HTTP/1.1", "line\n", content_length: 5, accept_encoding: "gzip")
      assert_equal ["one line\n", nil], [response.body, response["content-encoding"]]
    end
  end

  def test_a_body_that_raises_cuts_the_response_and_is_closed
    closed = false
    body = Enumerator.new do |parts|
      parts << TEXT
      raise "trouble"
    end
    body.define_singleton_method(:close) { closed = true }
    serve(compression(body)) do |served|
      client = connect(served).request(accept_encoding: "gzip")
      refute_includes client.rest, "\r\n0\r\n\r\n"
      expect_errors(served, /trouble/)
    end
    assert closed
  end

  def test_a_long_body_is_compressed_beside_the_loop
    long = Array.new(3000) { |number| "#{number} #{number * 7919 % 10_007}\n" * 40 }.join
    threads = []
    probe = Class.new(Gyre::HTTP::Compressors::Gzip) do
      define_method(:write) do |string, **options|
        threads << Thread.current
        super(string, **options)
      end
    end
    app = Gyre::HTTP::Compression.new(->(_env) { [200, PLAIN.dup, [long]] }, codings: { "gzip" => probe })
    serve(app) do |served|
      response = get(served, accept_encoding: "gzip")
      assert_equal long, Zlib.gunzip(response.body)
      refute_includes threads, served.on_loop { Thread.current }
      assert_operator threads.size, :>, 2
    end
  end

  private

  def compression(body)
    Gyre::HTTP::Compression.new(->(_env) { [200, PLAIN.dup, body] })
  end

  def call(body, status: 200, headers: PLAIN, accept: "gzip", method: "GET")
    app = Gyre::HTTP::Compression.new(->(_env) { [status, headers.dup, body] })
    status, headers, body = app.call({ "REQUEST_METHOD" => method, "HTTP_ACCEPT_ENCODING" => accept }.compact)
    [status, headers, body.to_enum.to_a.join]
  end
end
