# frozen_string_literal: true

# How the log's ingest cuts bytes into messages, and what comes of wrong ones.
require "test_helper"
require_relative "../log/ingests"

class LogIngestInputContractTest < Minitest::Test
  include LogIngests::Tools

  def test_an_incomplete_message_is_kept
    sink = sink()
    decoder = ingest.decoder(:analogger)
    bytes = frame("hello")
    assert_nil decoder.feed(bytes.byteslice(0, 20), LogIngests::TIME_NS)
    assert_equal [20, 20, 0, nil], [decoder.bytesize, ingest.bytesize, decoder.messages, sink.take]
    assert_nil decoder.feed(bytes.byteslice(20, 100) + bytes.byteslice(0, 3), LogIngests::TIME_NS)
    assert_equal [3, 1], [decoder.bytesize, decoder.messages]
    assert_equal ["web|info|hello"], lines(sink)
  end

  def test_the_bytes_may_be_in_a_buffer_that_is_used_again
    sink = sink()
    decoder = ingest.decoder(:analogger)
    buffer = +""
    bytes = frame("é" * 100)
    bytes.each_char.each_slice(7) do |slice|
      decoder.feed(buffer.replace(slice.join), LogIngests::TIME_NS)
      buffer.replace("x" * 50)
    end
    assert_equal ["web|info|#{"é" * 100}".b], lines(sink)
  end

  def test_a_wrong_frame_ends_the_decoder
    { "00000000" => "checksum failed", "00100010::" => "checksum failed", "00120013:::a" => "checksum failed",
      "+012+012" => "checksum failed", "GET / HTTP/1.1\r\n" => "checksum failed", "\xff\xfe\x00\x00\xff\xfe\x00\x00" => "checksum failed",
      "81928192" => "max length exceeded", "00110011a::" => "malformed frame", "00110011:a:" => "malformed frame",
      "00120012:abc" => "malformed frame" }.each do |bytes, wrong|
      sink = sink()
      decoder = ingest.decoder(:analogger)
      assert_equal wrong, decoder.feed(frame("before") + bytes.b + frame("after"), LogIngests::TIME_NS), bytes
      assert_equal wrong, decoder.feed(frame("later"), LogIngests::TIME_NS)
      assert_equal wrong, decoder.finish(LogIngests::TIME_NS)
      assert_equal 0, decoder.bytesize
      assert_equal ["web|info|before"], lines(sink)
      assert_equal 0, ingest.bytesize
    end
  end

  def test_a_frame_may_have_8191_bytes
    sink = sink()
    bytes = frame("x" * (8191 - 18))
    assert_equal 8191, bytes.bytesize
    assert_nil feed(bytes)
    assert_equal ["web|info|#{"x" * 8173}"], lines(sink)
    assert_equal "max length exceeded", feed("01000100:", limit: 100)
  end

  def test_a_wrong_record_ends_the_decoder
    good = record(1)
    wrong_sum, no_sequence = record(2), record(3)
    wrong_sum.setbyte(30, 0)
    no_sequence[8, 8] = "\0" * 8
    no_sequence[4, 4] = [Zlib.crc32(no_sequence.byteslice(8, 100))].pack("N")
    { wrong_sum => "checksum failed", no_sequence => "sequence number 0", "\0\0\0\x11".b + "x" * 30 => "malformed record",
      "\0\x10\0\1----".b => "max length exceeded", [18, Zlib.crc32("\1" * 18)].pack("NN") + "\1" * 18 => "malformed record" }.each do |bytes, wrong|
      sink = sink()
      assert_equal wrong, feed(good + bytes + good, kind: :records)
      assert_equal ["web|info|m1"], lines(sink)
    end
  end

  # Numbers that are used up cannot be had again.
  def test_a_number_that_no_client_can_have_come_to_ends_the_decoder
    sink = sink()
    id = "ab" * 16
    decoder = ingest.decoder(:records, session: ingest.session(id, { sink => 5 }))
    far = (1 << 48) + 5
    assert_nil decoder.feed(record(far), LogIngests::TIME_NS)
    assert_equal "sequence number too far ahead", decoder.feed(record(far + 1) + record((1 << 64) - 1) + record(far + 2), LogIngests::TIME_NS)
    assert_equal ["web|info|m#{far}", "web|info|m#{far + 1}"], lines(sink)
    assert_equal 0, ingest.incomplete
    decoder = ingest.decoder(:records, session: ingest.session("cd" * 16, {}))
    record((1 << 48) + 1).each_char { |byte| decoder.feed(byte, LogIngests::TIME_NS) }
    assert_equal "sequence number too far ahead", decoder.finish(LogIngests::TIME_NS)
  end

  def test_a_record_carries_anything
    sink = sink(format: :json)
    message = "é\n\0" + "x" * 100_000
    assert_nil feed(record(1, message, service: "a:b"), kind: :records)
    assert_includes sink.take.first, %("service":"a:b","severity":"info","message":"é\\n\\u0000xx).b
    assert_equal "max length exceeded", feed(record(2, "x" * 2000), kind: :records, limit: 1000)
  end

  def test_a_long_message_may_come_in_small_pieces
    sink = sink()
    decoder = ingest.decoder(:records)
    bytes = record(1, "x" * 1_000_000)
    (0...bytes.bytesize).step(100) { |position| assert_nil decoder.feed(bytes.byteslice(position, 100), LogIngests::TIME_NS) }
    assert_equal [1, 0, 1_000_030], [decoder.messages, decoder.bytesize, sink.bytesize]
  end

  def test_what_is_cut_off_is_reported_at_the_end
    %i[analogger records].each do |kind|
      decoder = ingest.decoder(kind)
      assert_nil decoder.finish(LogIngests::TIME_NS)
      decoder.feed("001", LogIngests::TIME_NS)
      assert_equal "frame cut off", decoder.finish(LogIngests::TIME_NS)
      assert_equal [0, 0], [decoder.bytesize, ingest.bytesize]
    end
  end

  def test_syslog_comes_in_lines_and_with_counted_bytes
    sink = sink()
    assert_nil feed("<14>a: 1\n11 <11>b: 2\n3\n<12>c: 4\r\n\n8 <14>d: 5", kind: :syslog)
    assert_equal ["a|info|1", "b|error|2\\n3", "c|warn|4", "d|info|5"], lines(sink)
  end

  def test_a_line_may_begin_with_a_number
    sink = sink()
    assert_nil feed("42 is the answer\n12\n1234567890 <3>\n0 <1>\n", kind: :syslog)
    assert_equal ["syslog|info|42 is the answer", "syslog|info|12", "syslog|info|1234567890 <3>", "syslog|info|0 <1>"], lines(sink)
    assert_nil feed("5 <14>a\n", kind: :syslog, framing: :lines)
    assert_equal ["syslog|info|5 <14>a"], lines(sink)
  end

  def test_where_bytes_must_be_counted_all_else_is_wrong
    sink = sink()
    assert_nil feed("9 no <pri>\n", kind: :syslog, framing: :octet_counting, limit: 9)
    assert_equal ["syslog|info|no <pri>"], lines(sink)
    ["<14>a\n", "0 a", "12", "1234567890 a"].zip(["malformed frame", "malformed frame", nil, "malformed frame"]) do |bytes, wrong|
      assert_equal [wrong], [feed(bytes, kind: :syslog, framing: :octet_counting)], bytes
    end
    assert_nil feed("10 a", kind: :syslog, framing: :octet_counting, limit: 9)
  end

  def test_a_message_beyond_the_limit_is_cut_and_costs_no_other_however_it_arrives
    { [:syslog, :auto] => ["x" * 10, "y" * 11, "<14>a: 1"].map { |line| "#{line}\n" }.join,
      [:syslog, :octet_counting] => ["x" * 10, "y" * 25, "<14>a: 1"].map { |text| "#{text.bytesize} #{text}" }.join,
      [:syslog, :zero] => "xxxxxxxxxx\0#{"y" * 12}\n\0<14>a: 1\n\0" }.each do |(kind, framing), bytes|
      (1..bytes.bytesize).each do |step|
        sink = sink()
        decoder = ingest.decoder(kind, limit: 10, framing: framing)
        bytes.scan(/.{1,#{step}}/m) { |part| assert_nil decoder.feed(part, LogIngests::TIME_NS) }
        assert_equal [1, 3, 0], [decoder.overlong, decoder.messages, decoder.bytesize], [framing, step]
        assert_equal ["syslog|info|xxxxxxxxxx", "syslog|info|yyyyyyyyyy", "a|info|1"], lines(sink), [framing, step]
      end
    end
  end

  def test_a_zero_byte_alone_ends_a_message_where_it_is_asked_for
    sink = sink()
    assert_nil feed("<14>a: one\ntwo\0<14>a: three\0", kind: :syslog, framing: :zero)
    assert_equal ["a|info|one\\ntwo", "a|info|three"], lines(sink)
  end

  def test_a_number_is_a_count_only_before_a_priority
    sink = sink()
    text = "<14>a: it answered\n500 <html>\n9 <1x>\n7 <999>a\n11 <11>b: 2\n3\n<12>c: 4\n"
    (1..text.bytesize).each do |step|
      decoder = ingest.decoder(:syslog)
      text.scan(/.{1,#{step}}/m) { |part| assert_nil decoder.feed(part, LogIngests::TIME_NS) }
      assert_equal ["a|info|it answered", "syslog|info|500 <html>", "syslog|info|9 <1x>", "syslog|info|7 <999>a", "b|error|2\\n3", "c|warn|4"],
        lines(sink), step
    end
  end

  def test_the_last_line_needs_no_end
    sink = sink()
    decoder = ingest.decoder(:syslog)
    decoder.feed("<14>a: 1", LogIngests::TIME_NS)
    assert_nil decoder.finish(LogIngests::TIME_NS)
    assert_equal ["a|info|1"], lines(sink)
    assert_equal 0, ingest.bytesize
    decoder = ingest.decoder(:syslog)
    decoder.feed("9 <14>a: 1", LogIngests::TIME_NS)
    assert_equal "frame cut off", decoder.finish(LogIngests::TIME_NS)
  end

  def test_a_datagram_is_a_message
    sink = sink()
    assert_nil ingest.datagram(:syslog, "<14>a[7]: one\ntwo\n", LogIngests::TIME_NS)
    assert_nil ingest.datagram(:syslog, "\0", LogIngests::TIME_NS)
    assert_nil ingest.datagram(:json, %({"message":"three"}), LogIngests::TIME_NS)
    assert_equal ["a|info|pid=7 one\\ntwo", "json|info|three"], lines(sink)
    assert_raises(ArgumentError) { ingest.datagram(:records, "", LogIngests::TIME_NS) }
  end

  def test_json_lines_may_be_split_anywhere
    bytes = %({"service":"web","msg":"a"}\n\n  \n{"level":"\\udc00","message":"é"}\r\n[1]\n{"a":1}).b
    whole = nil
    (0..bytes.bytesize).each do |split|
      sink = sink()
      decoder = ingest.decoder(:json)
      [bytes[0, split], bytes[split..]].each do |part|
        assert_nil decoder.feed(part, LogIngests::TIME_NS)
        assert_equal decoder.bytesize, ingest.incomplete
      end
      assert_equal '{"a":1}'.bytesize, decoder.bytesize
      assert_nil decoder.finish(LogIngests::TIME_NS)
      assert_equal [4, 0], [decoder.messages, ingest.incomplete]
      found = lines(sink)
      whole ||= found
      assert_equal whole, found, split
    end
    assert_equal ["web|info|a", "json|info|[1]", "json|info|{\"a\":1}"], whole.values_at(0, 2, 3)
  end

  def test_a_line_of_json_that_is_too_long_is_cut_and_costs_no_other
    sink = sink()
    decoder = ingest.decoder(:json, limit: 20)
    assert_nil decoder.feed(%({"msg":"a"}\n#{"x" * 30}), LogIngests::TIME_NS)
    assert_nil decoder.feed(%(xxx\n{"msg":"b"}\n), LogIngests::TIME_NS)
    assert_equal [["json|info|a", "json|info|#{"x" * 20}", "json|info|b"], 1, 0], [lines(sink), decoder.overlong, ingest.bytesize]
  end

  def test_json_lines_are_messages
    sink = sink()
    decoder = ingest.decoder(:json)
    assert_nil decoder.feed(%({"service":"web","level":"WARN","msg":"a","x":1}\n{"mess), LogIngests::TIME_NS)
    assert_nil decoder.feed(%(age":"b"}\noh no), LogIngests::TIME_NS)
    assert_equal [2, 5], [decoder.messages, decoder.bytesize]
    assert_nil decoder.finish(LogIngests::TIME_NS)
    assert_equal [%(web|warn|a {"x":1}), "json|info|b", "json|info|oh no"], lines(sink)
    assert_equal 0, ingest.bytesize
  end
end
