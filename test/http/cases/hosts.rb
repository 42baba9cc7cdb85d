# frozen_string_literal: true

# Cases: Host and the authorities that it may name (RFC 9112, section 3.2; RFC 3986, section 3.2.2).
# Read by cases.rb only.

module HTTPCases
  { "example.com" => ["example.com", ""], "EXAMPLE.com:80" => ["EXAMPLE.com", "80"], "a:" => ["a", ""],
    "a:0" => %w[a 0], "a:65535" => %w[a 65535],
    "a:00080" => %w[a 00080], "127.0.0.1:9292" => ["127.0.0.1", "9292"], "a_b-c.d~e" => ["a_b-c.d~e", ""],
    "a%20b" => ["a%20b", ""],
    "!$&'()*+,;=" => ["!$&'()*+,;=", ""], "[::]" => ["[::]", ""], "[::1]:80" => ["[::1]", "80"],
    "[1:2:3:4:5:6:7:8]" => ["[1:2:3:4:5:6:7:8]", ""],
    "[2001:db8::a:B]" => ["[2001:db8::a:B]", ""], "[1::]" => ["[1::]", ""], "[1:2:3:4:5:6:7::]" => ["[1:2:3:4:5:6:7::]", ""],
    "[::2:3:4:5:6:7:8]" => ["[::2:3:4:5:6:7:8]", ""], "[::ffff:192.0.2.1]" => ["[::ffff:192.0.2.1]", ""],
    "[64:ff9b::255.0.10.199]:1" => ["[64:ff9b::255.0.10.199]", "1"],
    "[1:2:3:4:5:6:1.2.3.4]" => ["[1:2:3:4:5:6:1.2.3.4]", ""], "999.999" => ["999.999", ""], "." => [".", ""],
    "xn--bcher-kva.example" => ["xn--bcher-kva.example", ""],
    "#{"a" * 63}.#{"b" * 63}" => ["#{"a" * 63}.#{"b" * 63}", ""] }.each do |host, (name, port)|
    accept "the host #{host[0, 30]}", "GET / HTTP/1.1\r\nHost: #{host}\r\n\r\n", authority: host, host: name, port: port
  end

  no_host = "a Host that names no host"
  { "an empty host" => "", "a port alone" => ":80", "a space" => "a b", "a path" => "a/b", "a user" => "u@a",
    "a scheme" => "http://a", "a query" => "a?b", "a fragment" => "a#b",
    "a quotation mark" => "\"a\"", "a backslash" => "a\\b", "an open bracket" => "[::1", "a closed bracket" => "::1]",
    "bare IPv6" => "::1", "an IPv6 zone" => "[fe80::1%25eth0]",
    "an empty IPv6 address" => "[]", "one colon in brackets" => "[:]", "three colons" => "[:::]",
    "two shortenings" => "[1::2::3]", "seven groups" => "[1:2:3:4:5:6:7]",
    "nine groups" => "[1:2:3:4:5:6:7:8:9]", "eight groups and a shortening" => "[1:2:3:4::5:6:7:8]",
    "a group of five digits" => "[12345::]", "a group of no hex digits" => "[g::]",
    "a trailing colon" => "[1:2:3:4:5:6:7:]", "a leading colon" => "[:1:2:3:4:5:6:7]",
    "a trailing colon after a shortening" => "[1::2:]", "IPv4 in brackets" => "[1.2.3.4]",
    "IPv4 in the middle" => "[::1.2.3.4:5]", "IPv4 with a number too large" => "[::1.2.3.256]",
    "IPv4 with three numbers" => "[::1.2.3]", "IPv4 with five numbers" => "[::1.2.3.4.5]",
    "IPv4 with a leading zero" => "[::1.2.3.04]", "IPv4 with an empty number" => "[::1..2.3]",
    "IPv4 after a shortening without room" => "[1:2:3:4:5:6::1.2.3.4]",
    "a future IP address" => "[v1.a]", "text after brackets" => "[::1]a", "text after a port" => "a:80b",
    "a signed port" => "a:+80", "a port too large" => "a:65536",
    "a port of six digits" => "a:000080", "two ports" => "a:80:80", "a percent sign" => "a%", "half an escape" => "a%2",
    "a malformed escape" => "a%2x",
    "a byte above ASCII" => "b\xc3\xbccher.example", "two hosts in one line" => "a, b", "angle brackets" => "<a>",
    "a brace" => "{a}", "a tab" => "a\tb" }.each do |what, host|
    refuse 400, no_host, "a Host with #{what}", "GET / HTTP/1.1\r\nHost: #{host}\r\n\r\n"
  end
  refuse 400, no_host, "a malformed Host in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a/b\r\n\r\n"
  refuse 400, no_host, "a malformed Host beside an absolute target", "GET http://a/ HTTP/1.1\r\nHost: @\r\n\r\n"
  refuse 400, no_host, "a malformed Host beside CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a:x\r\n\r\n"

  refuse 400, "an HTTP/1.1 request without Host", "no Host", "GET / HTTP/1.1\r\nAccept: a\r\n\r\n", at: 29
  refuse 400, "an HTTP/1.1 request without Host", "no header line at all", "GET / HTTP/1.1\r\n\r\n", at: 18
  refuse 400, "an HTTP/1.1 request without Host", "no Host with an absolute target", "GET http://a/ HTTP/1.1\r\n\r\n"
  refuse 400, "an HTTP/1.1 request without Host", "no Host in HTTP/1.5", "GET / HTTP/1.5\r\n\r\n"
  refuse 400, "more than one Host", "two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", at: 34
  refuse 400, "more than one Host", "two equal Hosts, one in capitals", "GET / HTTP/1.1\r\nHost: a\r\nHOST: a\r\n\r\n"
  refuse 400, "more than one Host", "two Hosts in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a\r\nhost: a\r\n\r\n"
  accept "Host in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a:1\r\n\r\n", authority: "a:1"
  accept "Host in any case", "GET / HTTP/1.1\r\nhOsT: a\r\n\r\n", authority: "a", fields: [%w[hOsT a]]
  accept "names like Host are not Host", "GET / HTTP/1.1\r\nHosu: /\r\nHost: a\r\nX-Host: /\r\nHost-: /\r\n\r\n", authority: "a"
  accept "the target's host wins over Host", "GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", authority: "a", fields: [%w[Host b]]
end
