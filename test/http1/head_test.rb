# frozen_string_literal: true

require "test_helper"
require "time"
require "gyre/http1/head"

class HTTP1HeadTest < Minitest::Test
  Head = Gyre::HTTP1::Head

  def compose(status = 200, headers = {}, framing = nil, connection = nil)
    Head.compose(status, headers, framing, connection).sub(/^date: .*\r\n/, "")
  end

  def test_a_status_line_fields_and_an_empty_line
    assert_equal "HTTP/1.1 200 OK\r\na: b\r\n\r\n", compose(200, { "a" => "b" })
    assert_equal "HTTP/1.1 299 \r\n\r\n", compose(299)
    assert_equal Encoding::BINARY, compose.encoding
  end

  def test_each_framing_says_how_the_body_ends
    assert_equal "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", compose(200, {}, 5)
    assert_equal "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", compose(200, {}, :chunked)
    assert_equal "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", compose(200, {}, :close, "close")
  end

  def test_the_servers_own_fields_are_left_out_unless_the_app_frames_by_itself
    own = { "content-length" => "1", "Transfer-Encoding" => "x", "connection" => "y", "rack.hijack" => "z" }
    assert_equal "HTTP/1.1 200 OK\r\n\r\n", compose(200, own)
    assert_equal "HTTP/1.1 200 OK\r\ncontent-length: 1\r\nTransfer-Encoding: x\r\nconnection: y\r\n\r\n", compose(200, own, :raw)
  end

  def test_an_array_is_a_line_for_each_value
    assert_equal "HTTP/1.1 200 OK\r\na: 1\r\na: 2\r\n\r\n", compose(200, { "a" => %w[1 2], "b" => [] })
  end

  def test_the_date_is_there_once
    before = Time.now.to_i
    assert_includes (before - 2)..Time.now.to_i, Time.httpdate(Head.compose(200, {}, nil, nil)[/^date: (.*)\r$/, 1]).to_i
    assert_equal 1, Head.compose(200, { "Date" => "mine" }, nil, nil).scan(/^date: /i).size
    refute_match(/date/, Head.compose(101, {}, :raw, nil))
    assert_same Head.date, Head.date
  end

  def test_values_of_any_encoding_are_sent_as_they_are
    head = compose(200, { "a" => "ä", "b" => "\xff".b, "c" => "\xe4".dup.force_encoding("ISO-8859-1") })
    assert_equal "HTTP/1.1 200 OK\r\na: \xC3\xA4\r\nb: \xFF\r\nc: \xE4\r\n\r\n".b, head
  end

  def test_names_that_are_no_tokens_and_values_that_split_are_refused
    [{ "" => "v" }, { "a b" => "v" }, { "a:" => "v" }, { "ä" => "v" }, { "a\r\n" => "v" }, { a: "v" }, { "a" => "v\r" }, { "a" => "v\nw" },
     { "a" => "v\0" }, { "a" => ["v", "\n"] }, { "a" => 5 }, { "a" => nil }, { "a" => "\xff\n".b }, { "a" => "\xff\n" }].each do |headers|
      assert_raises(ArgumentError, headers.inspect) { compose(200, headers) }
    end
  end

  def test_an_app_may_say_close_in_any_way
    assert Head.close?("Connection" => "Close")
    assert Head.close?("connection" => "keep-alive ,close")
    assert Head.close?("connection" => %w[a close])
    refute Head.close?("connection" => "closed")
    refute Head.close?("x" => "close")
    refute Head.close?({})
  end

  def test_interim_heads_have_no_framing_and_no_date
    assert_equal "HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n", Head.interim(103, { "link" => "a", "content-length" => "1" })
    assert_equal "HTTP/1.1 100 Continue\r\n\r\n", Head.interim(100, {})
  end
end
