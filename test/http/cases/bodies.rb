# frozen_string_literal: true

# Cases: chunked bodies with their extensions and trailers (RFC 9112, section 7.1). Read by cases.rb
# only.

module HTTPCases
  body "an empty body", "0\r\n\r\n", data: "", fields: []
  body "one chunk", "5\r\nhello\r\n0\r\n\r\n", data: "hello"
  body "three chunks", "1\r\na\r\n2\r\nbc\r\n3\r\ndef\r\n0\r\n\r\n", data: "abcdef"
  body "a size in hexadecimal of both cases", "A\r\n0123456789\r\nb\r\n0123456789a\r\n0\r\n\r\n", data: "01234567890123456789a"
  body "a size with leading zeros", "0005\r\nhello\r\n000\r\n\r\n", data: "hello"
  body "data that looks like framing", "9\r\n0\r\n\r\n5\r\n\r\r\n0\r\n\r\n", data: "0\r\n\r\n5\r\n\r"
  body "binary data", "4\r\n\0\xff\n\r\r\n0\r\n\r\n", data: "\0\xff\n\r"
  body "a long chunk", "7d0\r\n#{"x" * 2000}\r\n0\r\n\r\n", data: "x" * 2000
  body "what follows the body is left alone", "1\r\na\r\n0\r\n\r\nGET / HTTP/1.1\r\n", data: "a", length: 11, at: 11

  ["", ";a", ";a=b", ";a;b=c", ";a=\"\"", ";a=\"b c\\\"d;e\\\\\"", ";a=\"\t\xff\"", " ;a", "\t; a = b ;c",
   ";a=\"b\" ;c", ";a =\t\"b\"", ";!#$%&'*+-.^_`|~09azAZ=1", ";", ";a ", ";=a", ";;a=", ";a b,\"c"].each do |extension|
    body "the extension #{extension.inspect}", "1#{extension}\r\na\r\n0#{extension}\r\n\r\n", data: "a"
  end

  no_number = "a chunk size that is not a number"
  # CVE-2023-38697 and others: signs, prefixes, underscores
  { "no size" => "\r\n", "a plus sign" => "+1\r\na", "a minus sign" => "-1\r\na", "a prefix" => "0x1\r\na",
    "an underscore" => "1_0\r\na", "a space before it" => " 1\r\na",
    "a letter beyond f" => "g\r\na", "a comma" => "1,\r\na", "a bare line feed after it" => "1\na",
    "a quotation mark" => "\"1\"\r\na", "a NUL after it" => "1\0\r\na",
    "a line feed alone" => "\na", "a point" => "1.0\r\na", "an extension without a size" => ";a\r\nb",
    "a byte above ASCII" => "\xb2\r\na" }.each do |what, bytes|
    refuse_body no_number, "a chunk size with #{what}", bytes
  end
  bad_extension = "a malformed chunk extension"
  { "a space after the size" => "1 \r\na", "two numbers" => "1 1\r\na",
    "a bare line feed in an extension" => "1;a\nb", "a bare line feed in a value" => "1;a=b\nc",
    "a NUL in an extension" => "1;a\0\r\nb", "a control byte in a quoted value" => "1;a=\"\x01\"\r\nb",
    "a line feed in a quoted value" => "1;a=\"\n\"\r\nb",
    "an escaped line feed" => "1;a=\"\\\n\"\r\nb",
    "an equals sign after the size" => "1 =a\r\nb" }.each do |what, bytes|
    refuse_body bad_extension, "a chunk-size line with #{what}", bytes
  end
  bare_cr = "a carriage return without a line feed after it"
  refuse_body bare_cr, "a bare carriage return after a size", "1\ra"
  refuse_body bare_cr, "two carriage returns after a size", "1\r\r\na"
  refuse_body bare_cr, "a bare carriage return after an extension", "1;a\rb"
  refuse_body bare_cr, "a bare carriage return after data", "1\r\na\r0\r\n\r\n", data: "a"
  refuse_body "a chunk that is longer than its size", "a line feed alone after data", "1\r\na\n0\r\n\r\n", data: "a", at: 5
  refuse_body "a chunk that is longer than its size", "more data than the size says", "1\r\nab\r\n0\r\n\r\n", data: "a", at: 5
  refuse_body "a chunk that is longer than its size", "no line end after data", "1\r\na0\r\n\r\n", data: "a"
  refuse_body "a chunk that is longer than its size", "less data than the size says", "5\r\na\r\n0\r\n\r\n", data: "a\r\n0\r"

  too_large = "a chunk size that is too large"
  incomplete_body "the largest size", "4000000000000000\r\na", data: "a"
  incomplete_body "the largest size with leading zeros", "#{"0" * 100}4000000000000000\r\na", data: "a"
  refuse_body too_large, "one beyond the largest size", "4000000000000001\r\na"
  refuse_body too_large, "a size of 64 bits", "ffffffffffffffff\r\na"
  refuse_body too_large, "a size that would overflow 64 bits to 1", "10000000000000001\r\na"
  refuse_body too_large, "a size that would overflow 64 bits to 0", "40000000000000000\r\n\r\n"
  refuse_body too_large, "a size of 40 digits", "f" * 40
  refuse_body "a chunk-size line that is too long", "a size of zeros without an end", "0" * 300, at: 257
  refuse_body "a chunk-size line that is too long", "an extension without an end", "1;#{"a" * 300}", at: 257
  refuse_body "a chunk-size line that is too long", "a quoted value without an end", "1;a=\"#{"b" * 300}", at: 257
  refuse_body "a chunk-size line that is too long", "white space without an end", "1;#{" " * 300}", at: 257
  body "a size line of just the limit", "1;#{"a" * 252}\r\nb\r\n0\r\n\r\n", data: "b"
  refuse_body "a chunk-size line that is too long", "a size line one byte beyond the limit", "1;#{"a" * 253}\r\nb\r\n0\r\n\r\n"
  refuse_body "too many chunk extensions", "extensions in each of many chunks", "1;#{"a" * 250}\r\nb\r\n" * 80 # CVE-2024-21647

  incomplete_body "nothing of a body", ""
  incomplete_body "a part of a size", "5"
  incomplete_body "a part of a chunk", "5\r\nhel", data: "hel"
  incomplete_body "a body without its last chunk", "5\r\nhello\r\n", data: "hello"
  incomplete_body "a body without its blank line", "0\r\n"
  incomplete_body "a part of a trailer", "0\r\nA: b\r\n"

  body "trailers", "1\r\na\r\n0\r\nA: b\r\nX-Sum:  c d \r\n\r\n", data: "a", fields: [%w[A b], ["X-Sum", "c d"]]
  %w[te host range cookie expect pragma trailer upgrade if-match if-range connection keep-alive content-type max-forwards
     authorization cache-control content-range if-none-match content-length http2-settings content-encoding proxy-connection
     if-modified-since transfer-encoding if-unmodified-since proxy-authorization].each do |name|
    body "the trailer #{name}", "0\r\nA: b\r\n#{name}: 5\r\nC: d\r\n\r\n", data: "", fields: [%w[A b], %w[C d]]
    body "the trailer #{name.capitalize}", "0\r\n#{name.capitalize}:\r\n\r\n", data: "", fields: []
  end
  body "trailers with names like forbidden ones", "0\r\nx-host: a\r\nhosts: b\r\nte_: c\r\n\r\n", data: ""
  refuse_body "white space between a header's name and its colon", "a request in the place of trailers",
              "0\r\nGET / HTTP/1.1\r\n\r\n"
  body "a request hidden in a trailer's value stays one", "0\r\nX:POST / HTTP/1.1\r\n\r\n", data: "", fields: [["X",
       "POST / HTTP/1.1"]] # CVE-2023-40175
  refuse_body "white space before the first header line", "a folded first trailer", "0\r\n A: b\r\n\r\n"
  refuse_body "a folded header line", "a folded trailer", "0\r\nA: b\r\n c\r\n\r\n"
  refuse_body "a line feed without a carriage return before it", "a trailer that ends in a bare line feed", "0\r\nA: b\n\r\n"
  refuse_body "a carriage return without a line feed after it", "a trailer section that ends in a bare carriage return",
              "0\r\n\rG"
  refuse_body "a header line without a colon", "a trailer section that ends in a bare line feed", "0\r\n\n"
  refuse_body "a control byte in a header's value", "a NUL in a trailer", "0\r\nA: \0\r\n\r\n"
  body "a trailer section of just the limit", "0\r\nA: b\r\n\r\n", data: "", limits: { bytes: 8 }
  refuse_body "header lines that are too long in all", "a trailer section one byte beyond the limit",
              "0\r\nA: b\r\n\r\n", status: 431, limits: { bytes: 7 }
  refuse_body "too many header lines", "too many trailers", "0\r\nA: b\r\nC: d\r\n\r\n", status: 431, limits: { count: 1 }
end
