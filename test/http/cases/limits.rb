# frozen_string_literal: true

# Cases: what is too long or too many, and that it is refused as early as that is known. Read by
# cases.rb only.

module HTTPCases
  line = "GET /abcdef HTTP/1.1\r\n" # 22 bytes
  long_line = "a request line that is too long"
  accept "a request line of just the limit", "#{line}Host: a\r\n\r\n", limits: { line: 22 }
  refuse 414, long_line, "a request line one byte beyond the limit", "#{line}Host: a\r\n\r\n", limits: { line: 21 }, at: 21
  refuse 414, long_line, "a request line without an end", "GET /#{"a" * 9000}", at: 8192
  refuse 414, long_line, "a query without an end", "GET /?#{"a" * 9000}", at: 8192
  refuse 414, long_line, "a request line that exceeds its limit inside its method", "GET / HTTP/1.1\r\n",
         limits: { line: 2 }, at: 2
  refuse 414, long_line, "a request line that exceeds its limit inside its version", "GET / HTTP/1.1\r\n",
         limits: { line: 9 }, at: 9
  refuse 414, long_line, "what stands beyond the limit is not looked at", "GET /aaaaaaa\0", limits: { line: 10 }, at: 10
  accept "the empty line before the request line does not count for its limit", "\r\n#{line}Host: a\r\n\r\n", limits: { line: 22 }
  accept "a long request line within the limit", "GET /#{"a" * 8176} HTTP/1.1\r\nHost: a\r\n\r\n", path: "/#{"a" * 8176}"

  headers = "Host: a\r\nB: c\r\n\r\n" # 17 bytes
  too_long = "header lines that are too long in all"
  accept "header lines of just the limit", "#{line}#{headers}", limits: { bytes: 17 }
  refuse 431, too_long, "header lines one byte beyond the limit", "#{line}#{headers}", limits: { bytes: 16 }, at: 38
  (1..15).each { |bytes| refuse 431, too_long, "header lines cut by a limit of #{bytes} bytes", "#{line}#{headers}",
    limits: { bytes: bytes }, at: 22 + bytes }
  accept "a request without header lines and a limit of their blank line", "GET / HTTP/1.0\r\n\r\n", limits: { bytes: 2 }
  refuse 431, too_long, "a value without an end", "#{line}Host: #{"a" * 70_000}", at: 22 + 65_536
  refuse 431, too_long, "white space without an end before a value", "#{line}Host:#{" " * 70_000}", at: 22 + 65_536
  refuse 431, too_long, "short lines without an end", "#{line}#{"a:b\r\n" * 80}", limits: { bytes: 300 }, at: 322
  refuse 431, "a header's name that is too long", "a name without an end", "#{line}#{"a" * 2000}", at: 22 + 1025
  refuse 431, "a header's name that is too long", "a name of 1,025 bytes", get("#{"a" * 1025}: b")
  accept "a name of 1,024 bytes", get("#{"a" * 1024}: b")
  refuse 431, too_long, "a name beyond the limit of all lines", "#{line}#{"a" * 2000}", limits: { bytes: 1000 }, at: 1022

  accept "as many header lines as the limit", get("A: b", "C: d"), limits: { count: 3 }
  refuse 431, "too many header lines", "one header line beyond the limit", get("A: b", "C: d"), limits: { count: 2 }, at: 32
  accept "128 header lines", get(*Array.new(127) { |index| "A#{index}: b" })
  refuse 431, "too many header lines", "129 header lines", get(*Array.new(128) { |index| "A#{index}: b" })
  refuse 400, "a folded header line", "a folded line after as many lines as the limit", get(" b"), limits: { count: 1 }
end
