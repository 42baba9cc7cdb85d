# frozen_string_literal: true

# How a response's body is read, decoded, saved and limited. http/client/contract.rb has what is the
# same over each protocol.

require "test_helper"
require "gyre/http/client"
require "http/client/scripted_server"
require "pathname"
require "tmpdir"
require "zlib"

class HTTPClientResponseTest < Minitest::Test
  include GyreTest::ScriptedServer

  Client = Gyre::HTTP::Client
  TEXT = "hello " * 100

  def test_a_body_that_was_dropped_or_read_in_pieces_is_not_empty
    client = app({}, %w[one two])
    ways = [-> { client.get("/") { |response| response } }, -> { client.stream("GET", "/").tap(&:close) },
            -> { client.stream("GET", "/").tap { |response| response.each.first } },
            -> { client.stream("GET", "/").tap { |response| response.each { nil } } }]
    ways.each do |way|
      response = way.call
      [-> { response.body }, -> { response.text }, -> { response.each { flunk } }].each do |read|
        assert_match(/read in pieces or dropped/, assert_raises(Client::Error, &read).message)
      end
    end
    assert_equal "", app({}, []).stream("GET", "/").tap(&:close).body
  end

  def test_a_body_that_was_read_whole_may_be_read_again
    client = app({}, %w[one two])
    response = client.get("/")
    assert_same response, response.each { |piece| assert_equal "onetwo", piece }
    assert_equal %w[onetwo onetwo], [response.body, response.text]
    assert_equal "onetwo", client.get("/") { |streamed| streamed.body && streamed }.body
  end

  def test_a_list_of_codings_is_decoded_and_an_unknown_one_is_left
    twice = Zlib.gzip(Zlib.gzip(TEXT))
    assert_equal TEXT, app({ "content-encoding" => "gzip, gzip" }, [twice]).get("/").body
    assert_equal twice, app({ "content-encoding" => "gzip, compress" }, [twice]).get("/").body
  end

  def test_the_limit_counts_encoded_bytes_too
    nothing = Zlib.gzip("") * 1000
    [["gzip", [nothing] * 2], ["gzip, gzip", [Zlib.gzip(nothing)]]].each do |coding, pieces|
      client = app({ "content-encoding" => coding }, pieces, body_bytes_limit: 10_000)
      assert_raises(Client::TooLargeError) { client.get("/") }
    end
  end

  def test_a_range_asks_for_no_coding_and_a_part_is_not_decoded
    asked = []
    gzip = Zlib.gzip(TEXT)
    client = Client.new(->(env) { (asked << env["HTTP_ACCEPT_ENCODING"]) && [env["PATH_INFO"][1..].to_i, { "content-encoding" => "gzip" }, [gzip]] })
    assert_equal gzip, client.get("/206", headers: { "Range" => "bytes=0-" }).body
    assert_equal TEXT, client.get("/200", headers: { "Range" => "bytes=0-" }).body
    assert_equal gzip, client.get("/200", headers: { "range" => "bytes=0-", "accept-encoding" => "gzip" }).body
    assert_equal %w[identity identity gzip], asked
  end

  def test_text_has_the_servers_charset_in_any_letter_case
    { "windows-1251" => "\u041f\u0440\u0438", "Shift_JIS" => "\u3053\u3093", "big5" => "\u4f60", "ISO-8859-15" => "\u20ac" }.each do |charset, word|
      text = app({ "content-type" => "text/html; charset=#{charset}" }, [word.encode(charset).b]).get("/").text
      assert_equal word, text.encode(Encoding::UTF_8), charset
    end
    %w[locale external none].each do |charset|
      assert_equal "\u00e4", app({ "content-type" => "text/html; charset=#{charset}" }, ["\u00e4".b]).get("/").text
    end
  end

  def test_text_and_json_drop_a_byte_order_mark
    response = app({}, ["\u{feff}{\"a\":1}".b]).get("/")
    assert_equal ["{\"a\":1}", { "a" => 1 }], [response.text, response.json]
  end

  def test_a_pathname_is_opened_once
    Dir.mktmpdir do |folder|
      path = Pathname(folder).join("file")
      assert_equal 30, app({}, %w[first second third].map { |word| word.ljust(10) }).stream("GET", "/").save(path)
      assert_equal "first     second    third     ", path.read
    end
  end

  def test_save_goes_on_after_a_partial_write
    target = Object.new
    def target.write(bytes) = (@taken ||= +"") << bytes[0, 3] && bytes[0, 3].bytesize
    assert_equal 10, app({}, %w[0123456 789]).stream("GET", "/").save(target)
    assert_equal "0123456789", target.instance_variable_get(:@taken)
  end

  def test_a_server_that_drips_no_body_is_too_slow
    drip = lambda do |peer|
      peer.head
      peer.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5;")
      loop { peer.write("x") && sleep(0.01) }
    end
    scripted(drip) do |server|
      client = Client.new(server.url, proxy: nil, body_rate_bytes_limit: 1)
      client.get("/") do |response|
        pieces = response.each
        assert_equal "hello", pieces.next
        response.instance_variable_set(:@waited_s, 9.99) # 10 s are nearly over
        assert_match(/body_rate_bytes_limit/, assert_raises(Client::TimeoutError) { pieces.next }.message)
      end
    end
  end

  private

  def app(headers, pieces, **limits) = Client.new(->(_env) { [200, headers, pieces] }, **limits)
end
