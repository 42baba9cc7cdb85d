# frozen_string_literal: true

# Cases: where a request ends: Content-Length, Transfer-Encoding, both, and Expect (RFC 9112,
# section 6; RFC 9110, section 10.1.1). Whatever two parties could read differently is refused. Read
# by cases.rb only.

module HTTPCases
  { "0" => 0, "5" => 5, "0005" => 5, "4611686018427387904" => 1 << 62, "#{"0" * 300}7" => 7, "00" => 0 }.each do |value, length|
    accept "Content-Length: #{value[0, 24]}", get("Content-Length: #{value}"), content_length: length, flags: KEEP | LENGTH
  end
  accept "Content-Length with white space around it", get("Content-Length: \t 5 \t"), content_length: 5
  accept "Content-Length in HTTP/1.0", get("Content-Length: 5", version: "1.0"), content_length: 5, flags: LENGTH

  not_a_number = "a Content-Length that is not a number"
  # CVE-2022-24790, CVE-2020-11077 and others
  ["+5", "-5", "-0", "5a", "a5", "0x5", "5 6", "5,5", "5, 5", "5;a", "5.0", "5e1", "1_000", "\"5\"", "\xb2", "\xd9\xa1",
   "5\t5", "#", ",5", "5,"].each do |value|
    refuse 400, not_a_number, "Content-Length: #{value.inspect}", get("Content-Length: #{value}")
  end
  too_large = "a Content-Length that is too large"
  %w[4611686018427387905 9223372036854775807 9223372036854775808 18446744073709551616 18446744073709551621
     99999999999999999999x].each do |value|
    refuse 400, too_large, "Content-Length: #{value}", get("Content-Length: #{value}")
  end
  refuse 400, too_large, "a Content-Length of 1,000 digits", get("Content-Length: #{"9" * 1000}")
  refuse 400, "an empty Content-Length", "an empty Content-Length", get("Content-Length:")
  refuse 400, "an empty Content-Length", "a Content-Length of white space", get("Content-Length:   ")
  refuse 400, "more than one Content-Length", "two different Content-Lengths", get("Content-Length: 5", "Content-Length: 6")
  refuse 400, "more than one Content-Length", "two equal Content-Lengths", get("Content-Length: 5", "CONTENT-LENGTH: 5")
  refuse 400, "more than one Content-Length", "two equal Content-Lengths in HTTP/1.0", get("Content-Length: 5",
         "Content-Length: 5", version: "1.0")

  accept "chunked", get("Transfer-Encoding: chunked"), flags: KEEP | CHUNKED, content_length: -1
  accept "chunked in any case", get("transfer-encoding: CHUnkeD"), flags: KEEP | CHUNKED
  accept "chunked with white space around it", get("Transfer-Encoding: \tchunked \t"), flags: KEEP | CHUNKED
  accept "chunked in HTTP/1.3", get("Transfer-Encoding: chunked", version: "1.3"), flags: KEEP | CHUNKED

  both = "Content-Length together with Transfer-Encoding"
  refuse 400, both, "Content-Length and then chunked", get("Content-Length: 5", "Transfer-Encoding: chunked")
  refuse 400, both, "chunked and then Content-Length", get("Transfer-Encoding: chunked", "Content-Length: 5")
  refuse 400, both, "chunked and a Content-Length of 0", get("Transfer-Encoding: chunked", "Content-Length: 0")
  refuse 400, both, "Content-Length and an unknown coding", get("Content-Length: 5", "Transfer-Encoding: gzip")
  refuse 400, both, "Content-Length and chunked in HTTP/1.0", get("Content-Length: 5", "Transfer-Encoding: chunked",
         version: "1.0")
  refuse 400, "more than one Transfer-Encoding", "chunked twice in two lines", get("Transfer-Encoding: chunked",
         "Transfer-Encoding: chunked")
  refuse 400, "more than one Transfer-Encoding", "chunked and identity in two lines", get("Transfer-Encoding: chunked",
         "Transfer-Encoding: identity")
  refuse 400, "Transfer-Encoding in HTTP/1.0", "chunked in HTTP/1.0", get("Transfer-Encoding: chunked", version: "1.0")
  refuse 400, "Transfer-Encoding in HTTP/1.0", "an unknown coding in HTTP/1.0", get("Transfer-Encoding: gzip", version: "1.0")
  not_last = "a Transfer-Encoding in which chunked is not the last and only once"
  ["chunked, chunked", "chunked, gzip", "chunked,identity", "gzip, chunked, gzip",
   "chunked,\"\""].each do |value|
    refuse 400, not_last, "Transfer-Encoding: #{value}", get("Transfer-Encoding: #{value}")
  end
  malformed = "a malformed Transfer-Encoding"
  ["", "  ", ",", " , ,", "chunked;a=b", "chunked ;a", "chunked\tx", "chunked x", "\"chunked\"", "(chunked)",
   "ch\xfcnked", "=", "gzip="].each do |value|
    refuse 400, malformed, "Transfer-Encoding: #{value.inspect}", get("Transfer-Encoding: #{value}")
  end
  # CVE-2020-11076, CVE-2022-24790 and others
  other = "a transfer coding other than chunked"
  [",chunked", "chunked,", "chunked, ,", " ,, chunked"].each do |value| # RFC 9110, section 5.6.1.2
    accept "Transfer-Encoding: #{value}", get("Transfer-Encoding: #{value}"), flags: KEEP | CHUNKED
  end
  ["gzip", "gzip,", "gzip,,chunked", "identity", "gzip, chunked", "xchunked", "chunkedx", "chunke", "chunked-a", "x-chunked", "gzip;a=b",
   "deflate , gzip ,chunked", "chunk,chunked", "gzip foo", "'chunked'"].each do |value|
    refuse 501, other, "Transfer-Encoding: #{value}", get("Transfer-Encoding: #{value}")
  end
  refuse 400, "white space between a header's name and its colon", "Transfer-Encoding with a space before its colon",
         get("Transfer-Encoding : chunked")
  accept "names like Transfer-Encoding are not it", get("Transfer_Encoding: a", "Transfer-Encodinh: b",
         "X-Transfer-Encoding: c", "Content-Lengti: d"), flags: KEEP

  accept "an expectation with a length", get("Expect: 100-continue", "Content-Length: 5"), flags: KEEP | LENGTH | EXPECT
  accept "an expectation with chunked, in any case", get("expect: 100-Continue", "Transfer-Encoding: chunked"),
         flags: KEEP | CHUNKED | EXPECT
  accept "an expectation without a body", get("Expect: 100-continue"), flags: KEEP
  accept "an expectation with an empty body", get("Expect: 100-continue", "Content-Length: 0"), flags: KEEP | LENGTH
  accept "an expectation twice", get("Expect: 100-continue", "Expect: 100-continue", "Content-Length: 1"),
         flags: KEEP | LENGTH | EXPECT
  accept "HTTP/1.0 knows no expectation", get("Expect: 100-continue", "Content-Length: 5", version: "1.0"), flags: LENGTH
  accept "HTTP/1.0 knows no expectation, whatever it says", get("Expect: a b", version: "1.0"), flags: 0
  ["", "100", "101-continue", "100-continue, a", "100-continue;a", "100-continue x", "continue", "100\rcontinue"].each do |value|
    next refuse(400, "a carriage return without a line feed after it", "Expect: #{value.inspect}",
      get("Expect: #{value}")) if value.include?("\r")

    refuse 417, "an expectation other than 100-continue", "Expect: #{value.inspect}", get("Expect: #{value}")
  end
end
