# frozen_string_literal: true

require "test_helper"
require "gyre/http/client"
require "socket"

# A table of responses as bytes, whole and byte by byte: the facts of llhttp's tests for responses,
# RFC 9112 section 6.3, and attempts of smuggling. A result is status and body, :refused
# (Gyre::ProtocolError) or :cut (EOFError).
class HTTPClientRepliesTest < Minitest::Test
  OK = "HTTP/1.1 200 OK\r\n"
  CHUNKED = "#{OK}Transfer-Encoding: chunked\r\n\r\n"

  # name => [bytes, result, whether the connection may be used again, method of the request]
  CASES = {
    # framing
    "length" => ["#{OK}Content-Length: 5\r\n\r\nhello", [200, "hello"], true],
    "length 0" => ["#{OK}Content-Length: 0\r\n\r\n", [200, ""], true],
    "length between tabs" => ["#{OK}Content-Length:\t5\t\r\n\r\nhello", [200, "hello"], true],
    "until the end" => ["#{OK}\r\nhello", [200, "hello"], false],
    "until the end, with another response as body" => ["#{OK}\r\n#{OK}", [200, OK], false],
    "until the end, empty" => ["#{OK}\r\n", [200, ""], false],
    "until the end, upgrade offered" => ["#{OK}Connection: upgrade\r\nUpgrade: h2c\r\n\r\nbody", [200, "body"], false],
    "1.0 with keep-alive until the end" => ["HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nx", [200, "x"], false],
    "1.0 with keep-alive and length" => ["HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", [200, "x"], true],
    "1.0 with length" => ["HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", [200, "x"], false],
    "close" => ["#{OK}Content-Length: 1\r\nConnection: close\r\n\r\nx", [200, "x"], false],
    "close in a list" => ["#{OK}Content-Length: 1\r\nConnection: a, Close\r\n\r\nx", [200, "x"], false],
    "proxy-connection means nothing" => ["#{OK}Content-Length: 1\r\nProxy-Connection: close\r\n\r\nx", [200, "x"], true],
    "204" => ["HTTP/1.1 204 No content\r\n\r\n", [204, ""], true],
    "204 with length" => ["HTTP/1.1 204 No content\r\nContent-Length: 3\r\n\r\n", [204, ""], true],
    "204 with bytes behind it" => ["HTTP/1.1 204 No content\r\n\r\n#{OK}", [204, ""], false],
    "304 with length" => ["HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", [304, ""], true],
    "304 with chunked" => ["HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", [304, ""], true],
    "HEAD with length" => ["#{OK}Content-Length: 456\r\n\r\n", [200, ""], true, "HEAD"],
    "HEAD with chunked" => [CHUNKED, [200, ""], true, "HEAD"],
    "bytes behind the body" => ["#{OK}Content-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\n\r\n", [200, "abc"], false],
    "shorter than its length" => ["#{OK}Content-Length: 6\r\n\r\nhello", :cut],
    # interim
    "100, then 404" => ["HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", [404, "no"], true],
    "103, then 200" => ["HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n#{OK}Content-Length: 1\r\n\r\nx", [200, "x"], true],
    "100 with length has no body" => ["HTTP/1.1 100 C\r\nContent-Length: 3\r\n\r\n#{OK}Content-Length: 1\r\n\r\nx", [200, "x"], true],
    "unasked 101" => ["HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 4\r\n\r\nproto", :refused],
    "endless 1xx" => ["HTTP/1.1 100 Continue\r\n\r\n" * 20, :refused],
    "only 1xx" => ["HTTP/1.1 100 Continue\r\n\r\n", :cut],
    # chunks
    "chunked" => ["#{CHUNKED}2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n", [200, "body"], true],
    "chunked, extensions" => ["#{CHUNKED}5;a;b=c\r\nhello\r\n6;d=\"e\";f\r\n world\r\n0\r\n\r\n", [200, "hello world"], true],
    "chunked, trailers" => ["#{CHUNKED}1\r\nx\r\n0\r\nExpires: never\r\n\r\n", [200, "x"], true],
    "chunked, without an end" => ["#{CHUNKED}1\r\nx\r\n0\r\n", :cut],
    "chunked, cut in a chunk" => ["#{CHUNKED}9\r\nx", :cut],
    "chunked, space behind the size" => ["#{CHUNKED}25  \r\nx", :refused],
    "chunked, no semicolon before the extension" => ["#{CHUNKED}2 erf\r\naa\r\n", :refused],
    "chunked, size with a sign" => ["#{CHUNKED}+2\r\nbo\r\n", :refused],
    "chunked, size in hexadecimal notation" => ["#{CHUNKED}0x2\r\nbo\r\n", :refused],
    "chunked, size of 17 digits" => ["#{CHUNKED}#{"f" * 17}\r\n", :refused],
    "chunked, chunk too long" => ["#{CHUNKED}2\r\nbody\r\n0\r\n\r\n", :refused],
    "chunked, bare LF" => ["#{CHUNKED}2\nbo\n0\n\n", :refused],
    "chunked, trailer that frames" => ["#{CHUNKED}0\r\nContent-Length: 1\r\n\r\n", [200, ""], true],
    "similar name" => ["#{OK}Content-Length-X: 0\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nOK\r\n0\r\n\r\n", [200, "OK"], true],
    # ambiguous framing
    "length and chunked" => ["#{OK}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", :refused],
    "chunked and length" => ["#{OK}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", :refused],
    "two lengths" => ["#{OK}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", :refused],
    "two equal lengths" => ["#{OK}Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", :refused],
    "length as a list" => ["#{OK}Content-Length: 5, 5\r\n\r\nhello", :refused],
    "length with a sign" => ["#{OK}Content-Length: +5\r\n\r\nhello", :refused],
    "length below zero" => ["#{OK}Content-Length: -5\r\n\r\nhello", :refused],
    "length empty" => ["#{OK}Content-Length:\r\n\r\nhello", :refused],
    "length too large" => ["#{OK}Content-Length: 99999999999999999999\r\n\r\n", :refused],
    "chunked is not the last" => ["#{OK}Transfer-Encoding: chunked, deflate\r\n\r\nWorld", :refused],
    "two transfer-encodings" => ["#{OK}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\nWorld", :refused],
    "chunkedchunked" => ["#{OK}Transfer-Encoding: chunkedchunked\r\n\r\n2\r\nOK\r\n0\r\n\r\n", :refused],
    "chunked in 1.0" => ["HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", :refused],
    # the status line
    "no reason" => ["HTTP/1.1 301\r\nContent-Length: 0\r\n\r\n", [301, ""], true],
    "empty reason" => ["HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", [200, ""], true],
    "two spaces before the reason" => ["HTTP/1.1 200  OK\r\nContent-Length: 0\r\n\r\n", [200, ""], true],
    "reason in another encoding" => ["HTTP/1.1 500 Ori\xC3\xABnt\r\nContent-Length: 0\r\n\r\n", [500, ""], true],
    "misspelt" => ["HTP/1.1 200 OK\r\n\r\n", :refused],
    "another protocol" => ["RTSP/1.1 200 OK\r\n\r\n", :refused],
    "longer name" => ["HTTPER/1.1 200 OK\r\n\r\n", :refused],
    "HTTP/0.9" => ["HTTP/0.9 200 OK\r\n\r\n", :refused],
    "HTTP/5.6" => ["HTTP/5.6 200 OK\r\n\r\n", :refused],
    "HTTP/2" => ["HTTP/2 200\r\n\r\n", :refused],
    "major of two digits" => ["HTTP/01.1 200 OK\r\n\r\n", :refused],
    "minor of two digits" => ["HTTP/1.01 200 OK\r\n\r\n", :refused],
    "tab behind the version" => ["HTTP/1.1\t200 OK\r\n\r\n", :refused],
    "two spaces before the status" => ["HTTP/1.1  200 OK\r\n\r\n", :refused],
    "status of one digit" => ["HTTP/1.1 2 OK\r\n\r\n", :refused],
    "status of four digits" => ["HTTP/1.1 2000 OK\r\n\r\n", :refused],
    "status below 100" => ["HTTP/1.1 099 OK\r\n\r\n", :refused],
    "bare CR in the reason" => ["HTTP/1.1 200 OK\rContent-Length: 0\r\n\r\n", :refused],
    "two CRs" => ["HTTP/1.1 200 OK\r\r\nContent-Length: 4\r\n\r\nEvil", :refused],
    "control byte in the reason" => ["HTTP/1.1 200 O\0K\r\n\r\n", :refused],
    "bare LFs" => ["HTTP/1.1 200 OK\nContent-Length: 0\n\n", :refused],
    "CRLF before the status line" => ["\r\n#{OK}Content-Length: 0\r\n\r\n", :refused],
    "endless status line" => ["HTTP/1.1 200 #{"x" * 9000}", :refused],
    "a body where a head belongs" => ["<html>", :refused],
    # header lines
    "space before the first line" => ["#{OK} Host: foo\r\n\r\n", :refused],
    "folded line" => ["#{OK}A: b\r\n c\r\n\r\n", [200, ""], false],
    "folded length" => ["#{OK}Content-Length: 1\r\n 0\r\n\r\n", :refused],
    "length in a folded line" => ["#{OK}Content-Length:\r\n 1\r\n\r\nx", :refused],
    "folded transfer-encoding" => ["#{OK}Transfer-Encoding: chunked\r\n , gzip\r\n\r\n", :refused],
    "folded connection" => ["#{OK}Connection: keep-alive\r\n , close\r\nContent-Length: 0\r\n\r\n", :refused],
    "folded trailer" => ["#{CHUNKED}0\r\nA: b\r\n c\r\n\r\n", :refused],
    "space in a name" => ["#{OK}en-US Content-Type: text/xml\r\n\r\n", :refused],
    "space before the colon" => ["#{OK}Content-Length : 1\r\n\r\nx", :refused],
    "lines separated by CR" => ["#{OK}Foo: 1\rBar: 2\r\n\r\n", :refused],
    "NUL in a value" => ["#{OK}A: \0\r\n\r\n", :refused],
    "no colon" => ["#{OK}Foo\r\n\r\n", :refused],
    "unusual names" => ["#{OK}.et-Cookie: a\r\n_eep-Alive: b\r\nX-$P: c\r\nContent-Length: 0\r\n\r\n", [200, ""], true],
    "too many lines" => ["#{OK}#{"a: b\r\n" * 200}\r\n", :refused],
    "too long in all" => ["#{OK}a: #{"b" * 70_000}\r\n\r\n", :refused],
    "cut in the head" => ["#{OK}Content-Le", :cut]
  }.freeze

  CASES.each do |name, (bytes, result, again, method)|
    define_method(:"test_#{name.tr(" ", "_")}_whole") { check(bytes, result, again, method, bytes.bytesize) }
    next if bytes.bytesize > 1000

    define_method(:"test_#{name.tr(" ", "_")}_byte_by_byte") { check(bytes, result, again, method, 1) }
  end

  def test_a_folded_value_is_one_line
    fold = "A: one,  \r\n\ttwo\r\n \r\nB:\r\n  three\r\n"
    [1, 1000].each do |step|
      seen = nil
      check("#{OK}#{fold}Content-Length: 1\r\n\r\nx", [200, "x"], true, "GET", step) { |exchange| seen = exchange.headers.values_at("a", "b") }
      assert_equal [["one,", "two"], "three"], [seen.first.split, seen.last], step
    end
  end

  def test_packed_fields_lie_within_their_text
    connection = Gyre::HTTP::Client::H1Connection
    packed = ->(*numbers) { "#{numbers.pack("LLLLSS")}A1" } # count, name, value, the value's length, the name's, flags
    assert_equal({ "a" => "1" }, connection.fields(packed[1, 0, 1, 1, 1, 0]))
    beyond = [[2, 0, 1, 1, 1, 0], [1, 0, 1, 2, 1, 0], [1, 0, 1, 1, 3, 0], [1, 2**32 - 1, 1, 1, 1, 0], [1, 0, 2**32 - 1, 2**32 - 1, 1, 0]]
    ["", "abc", *beyond.map { |numbers| packed[*numbers] }].each { |text| assert_raises(ArgumentError) { connection.fields(text) } }
  end

  private

  def check(bytes, result, again, method, step, &)
    Gyre.run do |task|
      ours, theirs = UNIXSocket.pair
      writer = task.async do
        0.step(bytes.bytesize - 1, step) do |at|
          theirs.write(bytes.byteslice(at, step))
          task.yield
        end
        theirs.close_write unless again
      rescue Errno::EPIPE
        nil # refused already
      end
      connection = Gyre::HTTP::Client::H1Connection.new(Gyre::Transport.new(ours, "peer"), Gyre::HTTP::Client::Limits.new)
      got = outcome(connection, method || "GET", &)
      writer.wait
      if result.is_a?(Symbol)
        assert_equal(result, got)
      else
        kept = connection.rest && (step > 1 || connection.ready?(false)) # bytes behind a reply may be unread yet
        assert_equal([*result, again], [*got, kept])
      end
    ensure
      connection&.close
      theirs&.close
    end
  end

  def outcome(connection, method)
    exchange = connection.request(method, "/", { "host" => "a" }, nil, nil)
    yield exchange if block_given?
    body = +""
    while (piece = exchange.read)
      body << piece
    end
    [exchange.status, body]
  rescue Gyre::ProtocolError
    :refused
  rescue EOFError, Gyre::HTTP::Client::Unanswered
    :cut
  end
end
