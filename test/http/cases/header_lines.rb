# frozen_string_literal: true

# Cases: header lines as such: names, values, white space, line ends. Read by cases.rb only.

module HTTPCases
  accept "a header line without white space", get("A:b"), fields: [%w[Host a], %w[A b]]
  accept "a header line with white space around its value", get("A: \t b c \t "), fields: [%w[Host a], ["A", "b c"]]
  accept "an empty value", get("A:"), fields: [%w[Host a], ["A", ""]]
  accept "a value of white space", get("A: \t  "), fields: [%w[Host a], ["A", ""]]
  accept "a value with tabs, colons and quotes", get("A: b\tc:d\"e\""), fields: [%w[Host a], ["A", "b\tc:d\"e\""]]
  accept "a value of bytes above ASCII", get("A: \xc3\xa9\xff\x80"), fields: [%w[Host a], ["A", "\xc3\xa9\xff\x80"]]
  accept "a long value", get("A: #{"b" * 3000}"), fields: [%w[Host a], ["A", "b" * 3000]]
  accept "a long value with white space at its end", get("A: #{"b" * 40}#{" " * 40}"), fields: [%w[Host a], ["A", "b" * 40]]
  accept "a long value of white space", get("A: #{" \t" * 300}"), fields: [%w[Host a], ["A", ""]]
  accept "a name of every byte that is allowed", get("!#$%&'*+-.^_`|~0123456789abcXYZ: b"), fields: [%w[Host a],
         ["!#$%&'*+-.^_`|~0123456789abcXYZ", "b"]]
  accept "a long name", get("#{"Long-" * 20}Name: b"), fields: [%w[Host a], ["#{"Long-" * 20}Name", "b"]]
  accept "the same name twice", get("A: b", "a: c"), fields: [%w[Host a], %w[A b], %w[a c]]
  accept "a name with an underscore is flagged, wherever it stands", get("X-Forwarded_For: b", "_: c", "#{"a" * 20}_: d")
  accept "a name of one byte", get("a: b")
  (1..20).each { |length| accept "a name and a value of #{length} bytes", get("#{"n" * length}: #{"v" * length}"),
    fields: [%w[Host a], ["n" * length, "v" * length]] }

  blank = "white space between a header's name and its colon"
  refuse 400, blank, "a space before the colon", get("A : b"), at: 27
  refuse 400, blank, "a tab before the colon", get("A\t: b"), at: 27
  refuse 400, blank, "a space before the colon of Content-Length", get("Content-Length : 5")
  refuse 400, blank, "a space in a name", get("A b: c")
  refuse 400, "a folded header line", "a folded line", get("A: b", " c"), at: 32
  refuse 400, "a folded header line", "a line folded with a tab", get("A: b", "\tc")
  refuse 400, "a malformed Transfer-Encoding", "a folded line after Transfer-Encoding", get("Transfer-Encoding:",
         " chunked"), at: 45
  refuse 400, "a folded header line", "a line of white space before the blank line", get("A: b", " ")
  refuse 400, "white space before the first header line", "white space before the first header line",
         "GET / HTTP/1.1\r\n Host: a\r\n\r\n", at: 17
  refuse 400, "a header line without a name", "no name", get(": b"), at: 26
  refuse 400, "a header line without a colon", "no colon", get("Ab"), at: 28
  refuse 400, "a header line without a colon", "no colon and a bare line feed", "GET / HTTP/1.1\r\nHost\n\r\n", at: 21
  refuse 400, "a header line without a colon", "a blank line of a bare line feed", "GET / HTTP/1.1\r\nHost: a\r\n\n", at: 26

  bad_name = "a byte in a header's name that is not allowed there"
  (0..255).each do |byte|
    next if byte.chr.match?(/[!#$%&'*+\-.^_`|~0-9A-Za-z:\t\r\n ]/n)

    refuse 400, bad_name, format("the byte 0x%02x in a name", byte),
           "GET / HTTP/1.1\r\nHost: a\r\nA".b << byte << "b: c\r\n\r\n", at: 27
  end
  bad_value = "a control byte in a header's value"
  [*0..31, 127].each do |byte|
    next if [9, 10, 13].include?(byte)

    refuse 400, bad_value, format("the byte 0x%02x in a value", byte),
           "GET / HTTP/1.1\r\nHost: a\r\nA: b".b << byte << "c\r\n\r\n", at: 30
    refuse 400, bad_value, format("the byte 0x%02x deep in a value", byte),
           "GET / HTTP/1.1\r\nHost: a\r\nA: #{"b" * 21}".b << byte << "c\r\n\r\n", at: 50
  end
  refuse 400, bad_value, "a NUL at the start of a value", get("A: \0b")
  refuse 400, bad_value, "a NUL at the end of a value", get("A: b\0")
  refuse 400, bad_value, "a vertical tab before chunked", get("Transfer-Encoding: \vchunked")

  bare_cr = "a carriage return without a line feed after it"
  bare_lf = "a line feed without a carriage return before it"
  refuse 400, bare_lf, "a line that ends in a bare line feed", "GET / HTTP/1.1\r\nHost: a\n\r\n", at: 24
  refuse 400, bare_lf, "a value that is a bare line feed", "GET / HTTP/1.1\r\nHost:\n\r\n"
  refuse 400, bare_lf, "two line feeds as the blank line", "GET / HTTP/1.1\r\nHost: a\n\n" # CVE-2021-41136
  refuse 400, bare_cr, "a line that ends in a bare carriage return", "GET / HTTP/1.1\r\nHost: a\rA: b\r\n\r\n", at: 25
  refuse 400, bare_cr, "a carriage return in a value", get("A: b\rc")
  refuse 400, bare_cr, "two carriage returns at the end of a line", get("A: b\r")
  refuse 400, bare_cr, "a blank line of a bare carriage return", "GET / HTTP/1.1\r\nHost: a\r\n\rGET", at: 27
  refuse 400, bare_cr, "a header line that starts with a carriage return", "GET / HTTP/1.1\r\nHost: a\r\n\rA: b\r\n\r\n"

  # Connection, keep-alive and upgrades (RFC 9112, section 9; RFC 9110, section 7.8).
  { "close" => 0, "Close" => 0, "keep-alive" => KEEP, "a, close" => 0, "close , b" => 0, "keep-alive, close" => 0,
    "" => KEEP, ", ,close," => 0,
    "closed" => KEEP, "\"close\"" => KEEP, "close;a" => KEEP, "clos\xe5" => KEEP, "upgrade" => KEEP }.each do |value, flags|
    accept "Connection: #{value.inspect} in HTTP/1.1", get("Connection: #{value}"), flags: flags
  end
  accept "the second Connection line counts too", get("Connection: a", "connection: close"), flags: 0
  { "keep-alive" => KEEP, "Keep-Alive" => KEEP, "close" => 0, "a" => 0, "keep-alive, close" => 0 }.each do |value, flags|
    accept "Connection: #{value} in HTTP/1.0", get("Connection: #{value}", version: "1.0"), flags: flags
  end
  accept "an upgrade to WebSocket", get("Connection: keep-alive, Upgrade", "Upgrade: websocket"), flags: KEEP | UPGRADE
  accept "an upgrade that is named before its Connection", get("Upgrade: h2c", "Connection: upgrade, close"), flags: UPGRADE
  accept "Upgrade without Connection is none", get("Upgrade: websocket"), flags: KEEP
  accept "Connection without Upgrade is none", get("Connection: upgrade"), flags: KEEP
  accept "an empty Upgrade is none", get("Connection: upgrade", "Upgrade:"), flags: KEEP
  accept "HTTP/1.0 knows no Upgrade", get("Connection: upgrade", "Upgrade: a", version: "1.0"), flags: 0
  accept "a very long Connection line", get("Connection: #{"a" * 2000}, close"),
         flags: 0 # a fixed buffer of 1,024 bytes broke another server
  accept "a Connection line of nothing but commas", get("Connection: #{"," * 500}"), flags: KEEP
  accept "a Connection line of white space", get("Connection: a#{" " * 500}b,close"), flags: 0
end
