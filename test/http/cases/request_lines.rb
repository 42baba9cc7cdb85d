# frozen_string_literal: true

# Cases: the request line, its methods, targets and versions, and what stands before it. Read by
# cases.rb only.

module HTTPCases
  accept "the smallest request of HTTP/1.1", "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
         method: "GET", method_number: 1, target: "/", path: "/", form: 0, minor: 1, flags: KEEP, content_length: -1,
         authority: "a", host: "a", port: "", fields: [%w[Host a]]
  accept "the smallest request of HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", minor: 0, flags: 0, authority: "", host: "",
         port: "", fields: []
  accept "a request of wrk", "GET / HTTP/1.1\r\nHost: 127.0.0.1:9292\r\n\r\n", authority: "127.0.0.1:9292",
         host: "127.0.0.1", port: "9292"
  accept "a request of a browser",
         "GET /articles/2026/a-title?page=2&sort=date HTTP/1.1\r\nHost: www.example.com\r\nConnection: keep-alive\r\n" \
         "Cache-Control: max-age=0\r\nUpgrade-Insecure-Requests: 1\r\n" \
         "User-Agent: Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101\r\n" \
         "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n" \
         "Referer: https://www.example.com/articles/\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n" \
         "Accept-Language: en-GB,en;q=0.9\r\nCookie: session=0123456789abcdef; theme=dark\r\n\r\n",
         path: "/articles/2026/a-title", query: "page=2&sort=date", flags: KEEP, host: "www.example.com"
  accept "pipelined requests end at the first one's blank line", "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\n",
         length: 27, path: "/"
  accept "a body after the head is not looked at", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n\0\x01\n",
         length: 47, content_length: 3

  %w[GET HEAD POST PUT DELETE TRACE PATCH].each do |method|
    accept "the method #{method}", "#{method} / HTTP/1.1\r\nHost: a\r\n\r\n", method: method,
           method_number: HTTPVerdicts::Portable::METHODS.index(method)
  end
  accept "an unknown method is a token all the same", "M-SEARCH / HTTP/1.1\r\nHost: a\r\n\r\n",
         method: "M-SEARCH", method_number: 0
  accept "methods are case-sensitive", "get / HTTP/1.1\r\nHost: a\r\n\r\n", method: "get", method_number: 0
  accept "a method of odd but allowed bytes", "!#$%&'*+-.^_`|~09azAZ / HTTP/1.1\r\nHost: a\r\n\r\n",
         method: "!#$%&'*+-.^_`|~09azAZ"
  accept "a method of 64 bytes", "#{"M" * 64} / HTTP/1.1\r\nHost: a\r\n\r\n", method: "M" * 64
  refuse 501, "a method that is too long", "a method of 65 bytes", "#{"M" * 65} / HTTP/1.1\r\nHost: a\r\n\r\n", at: 65
  refuse 501, "a method that is too long", "an endless method is refused before its end", "A" * 100, at: 65

  no_request_line = "a first line that is not an HTTP request line"
  refuse 400, no_request_line, "the first bytes of a TLS handshake", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", at: 1
  refuse 400, no_request_line, "a request line without a method", " / HTTP/1.1\r\nHost: a\r\n\r\n", at: 1
  refuse 400, no_request_line, "a NUL as the first byte", "\0GET / HTTP/1.1\r\n", at: 1
  refuse 400, no_request_line, "an empty line of a bare line feed before the request line",
         "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", at: 1
  refuse 400, no_request_line, "a method with a byte that no token has", "GE(T / HTTP/1.1\r\nHost: a\r\n\r\n", at: 3
  refuse 400, no_request_line, "a method alone on its line", "GET\r\n\r\n", at: 4
  refuse 400, no_request_line, "a tab after the method", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", at: 4
  refuse 400, no_request_line, "a method of bytes above ASCII", "G\xc3\x89T / HTTP/1.1\r\n", at: 2
  refuse 400, no_request_line, "a UTF-8 byte order mark", "\xef\xbb\xbfGET / HTTP/1.1\r\n", at: 1
  refuse 400, no_request_line, "a PROXY protocol header of version 2", "\r\n\r\n\0\r\nQUIT\n", at: 3
  refuse 400, no_request_line, "a JSON document", "{\"a\": 1}", at: 1

  accept "one empty line before the request line is skipped and counted", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
         path: "/", length: 29
  refuse 400, no_request_line, "a second empty line before the request line", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", at: 3
  refuse 400, "a carriage return without a line feed after it", "a bare carriage return before the request line",
         "\rGET / HTTP/1.1\r\n", at: 2
  incomplete "nothing", ""
  incomplete "the first half of an empty line", "\r"
  incomplete "an empty line", "\r\n"
  incomplete "a part of a method", "GE"
  incomplete "a part of a target", "GET /a?b"
  incomplete "a part of a version", "GET / HTTP/1."
  incomplete "a request line without its line feed", "GET / HTTP/1.1\r"
  incomplete "a head without its blank line", "GET / HTTP/1.1\r\nHost: a\r\n"
  incomplete "a head without its last byte", "GET / HTTP/1.1\r\nHost: a\r\n\r"

  { "/" => nil, "/a/b.c;d=e" => nil, "/a?b=c" => "b=c", "/?" => "", "/a??b?" => "?b?", "/%00%zz" => nil, "//a//b" => nil,
    "/a\"<>\\^`{|}" => nil, "/*" => nil, "/http://a/" => nil, "/a?http://b/#{"c" * 40}" => "http://b/#{"c" * 40}",
    "/#{"long/" * 20}?#{"q" * 50}" => "q" * 50 }.each do |target, query|
    path = target.split("?", 2)[0]
    expected = { target: target, path: path, form: 0 }
    expected[:query] = query if query
    accept "the target #{target[0, 20]} of #{target.size} bytes", "GET #{target} HTTP/1.1\r\nHost: a\r\n\r\n", **expected
  end

  bad_byte = "a byte in the request target that is not allowed there"
  { "a NUL" => "\0", "a tab" => "\t", "DEL" => "\x7f", "a control byte" => "\x01",
    "a byte above ASCII" => "\xc3\xa9" }.each do |what, byte|
    refuse 400, bad_byte, "#{what} in the target", "GET /a#{byte} HTTP/1.1\r\nHost: a\r\n\r\n", at: 7
    refuse 400, bad_byte, "#{what} in the query", "GET /a?b#{byte} HTTP/1.1\r\nHost: a\r\n\r\n", at: 9
    refuse 400, bad_byte, "#{what} far into the target", "GET /#{"a" * 30}#{byte} HTTP/1.1\r\nHost: a\r\n\r\n", at: 36
  end
  fragment = "a fragment in the request target"
  refuse 400, fragment, "a fragment after the path", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", at: 7
  refuse 400, fragment, "a fragment after the query", "GET /a?b#c HTTP/1.1\r\nHost: a\r\n\r\n", at: 9
  refuse 400, "a request line without a target", "two spaces after the method", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", at: 5
  refuse 400, "a malformed HTTP version", "two spaces after the target", "GET /  HTTP/1.1\r\nHost: a\r\n\r\n", at: 7
  refuse 400, "a malformed HTTP version", "a space in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", at: 8

  # Forms (RFC 9112, section 3.2).
  accept "an absolute target", "GET http://b.example:81/c?d HTTP/1.1\r\nHost: a\r\n\r\n",
         form: 1, path: "/c", query: "d", authority: "b.example:81", host: "b.example", port: "81",
           target: "http://b.example:81/c?d"
  accept "an absolute target of https", "GET https://b/c HTTP/1.1\r\nHost: b\r\n\r\n", form: 1, path: "/c", authority: "b"
  accept "an absolute target with its scheme in capitals", "GET HTTPS://b/ HTTP/1.1\r\nHost: b\r\n\r\n", form: 1,
         path: "/", authority: "b"
  accept "an absolute target without a path", "GET http://b HTTP/1.1\r\nHost: b\r\n\r\n", form: 1, path: "/", authority: "b"
  accept "an absolute target with a query and no path", "GET http://b?c/d HTTP/1.1\r\nHost: b\r\n\r\n", form: 1,
         path: "/", query: "c/d", authority: "b"
  accept "an absolute target with an empty query", "GET http://b? HTTP/1.1\r\nHost: b\r\n\r\n", form: 1, path: "/", query: ""
  accept "an absolute target with an IPv6 address", "GET http://[::1]:80/ HTTP/1.1\r\nHost: b\r\n\r\n", form: 1,
         host: "[::1]", port: "80"
  accept "an absolute target in HTTP/1.0 needs no Host", "GET http://b/ HTTP/1.0\r\n\r\n", form: 1, authority: "b"
  accept "an absolute target with OPTIONS", "OPTIONS http://b HTTP/1.1\r\nHost: b\r\n\r\n", form: 1, path: "/"
  accept "an asterisk with OPTIONS", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", form: 3, path: "*", target: "*", authority: "a"
  accept "a path with OPTIONS", "OPTIONS /a HTTP/1.1\r\nHost: a\r\n\r\n", form: 0, path: "/a"
  accept "a CONNECT", "CONNECT b:443 HTTP/1.1\r\nHost: a\r\n\r\n", form: 2, path: "b:443", authority: "b:443",
         host: "b", port: "443"
  accept "a CONNECT to an IPv6 address", "CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: a\r\n\r\n", form: 2,
         host: "[2001:db8::1]", port: "443"

  neither = "a request target that is neither a path nor an http URI"
  ["a", "a/b", "?a", "example.com:80", "ftp://b/", "http:/b/", "http:b", "htt", "http", "http:", "http:/", "httpx://b/",
   "**", "*?", "*/",
   "file:///etc/passwd", "ws://b/", "\\a"].each do |target|
    refuse 400, neither, "the target #{target}", "GET #{target} HTTP/1.1\r\nHost: a\r\n\r\n"
  end
  refuse 400, "the request target * with a method other than OPTIONS", "an asterisk with GET", "GET * HTTP/1.1\r\nHost: a\r\n\r\n"
  no_host = "a request target that names no host"
  ["http://", "http:///a", "http://?a", "http://u@b/", "http://u:p@b/", "http://b:x/", "http://b:65536/",
   "http://[::1/", "http://b\\c/",
   "http://:80/", "https://", "http://a b/"].each do |target|
    next refuse(400, "a malformed HTTP version", "the target #{target}",
      "GET #{target} HTTP/1.1\r\nHost: a\r\n\r\n") if target.include?(" ")

    refuse 400, no_host, "the target #{target}", "GET #{target} HTTP/1.1\r\nHost: a\r\n\r\n"
  end
  no_connect = "a CONNECT whose target is not host:port"
  ["/", "*", "b", "b:", ":80", "http://b:80", "b:80/", "b:80?c", "b:99999", "u@b:80", "b:80:80"].each do |target|
    refuse 400, no_connect, "CONNECT #{target}", "CONNECT #{target} HTTP/1.1\r\nHost: a\r\n\r\n"
  end

  # Versions.
  accept "HTTP/1.2 is read as HTTP/1.1", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", minor: 1, flags: KEEP
  accept "HTTP/1.9 is read as HTTP/1.1", "GET / HTTP/1.9\r\nHost: a\r\n\r\n", minor: 1
  other_version = "an HTTP version other than 1.0 and 1.1"
  refuse 505, other_version, "HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", at: 14
  refuse 505, other_version, "the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", at: 14
  refuse 505, other_version, "HTTP/0.9 spelled out", "GET / HTTP/0.9\r\n\r\n", at: 14
  refuse 505, other_version, "HTTP/9.9", "GET / HTTP/9.9\r\nHost: a\r\n\r\n", at: 14
  bad_version = "a malformed HTTP version"
  { "http/1.1" => 7, "HTTP/11" => 13, "HTTP/1" => 13, "HTTP/1." => 14, "HTTP/.1" => 12, "HTTP/1,1" => 13,
    "HTTP 1.1" => 11, "HTTP/+1.1" => 12,
    "HTTP/10.1" => 13, "HTTP/a.1" => 12, "HTTP/1.a" => 14, "HTTPS/1.1" => 11, "HTTP/ 1.1" => 12, "HTTP/0x1.1" => 13,
    "SIP/2.0" => 7,
    "HTTP/1.\xb2" => 14, "" => 7 }.each do |version, at|
    refuse 400, bad_version, "the version #{version.inspect}", "GET / #{version}\r\nHost: a\r\n\r\n", at: at
  end
  bad_end = "a request line that does not end in CRLF"
  { "HTTP/1.1 " => 15, "HTTP/1.10" => 15, "HTTP/1.1\t" => 15, "HTTP/1.1x" => 15 }.each do |version, at|
    refuse 400, bad_end, "the version #{version.inspect}", "GET / #{version}\r\nHost: a\r\n\r\n", at: at
  end
  refuse 400, bad_end, "a request line that ends in a bare line feed", "GET / HTTP/1.1\nHost: a\r\n\r\n", at: 15
  refuse 400, bad_end, "a request line that ends in a bare carriage return", "GET / HTTP/1.1\rHost: a\r\n\r\n", at: 16
  refuse 400, bad_end, "a request line that ends in two carriage returns", "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", at: 16
  refuse 400, "a request line without a version", "a request of HTTP/0.9", "GET /\r\n", at: 6
  refuse 400, "a request line without a version", "a request of HTTP/0.9 with a query and a bare line feed", "GET /?a\n", at: 8
end
