# frozen_string_literal: true

# Other programs as clients: dig, kdig (TLS, HTTPS), drill, and the probes of EDNS that
# ldns-test-edns and dig make.
require "test_helper"
require "support/dns_serving"
require "support/certificates"
require "gyre/dns/https"
require "gyre/web/server"
require "tmpdir"

class DNSProgramsTest < Minitest::Test
  include GyreTest::DNSServing

  WEB = /web\.example\.org\.\s+60\s+IN\s+A\s+192\.0\.2\.80/.freeze

  def test_dig
    dig = need_program("dig")
    serve(rules: zones) do |server|
      ask = ->(*words) { program(dig, "@127.0.0.1", "-p", server.port.to_s, "+time=10", "+tries=1", *words) }
      assert_match(/status: NOERROR.*flags: qr aa rd;.*COOKIE: \h+ \(good\).*#{WEB}/mo, ask.call("www.example.org"))
      assert_match(/flags: qr aa tc/, ask.call("+norecurse", "+ignore", "+bufsize=512", "long.example.org", "TXT"))
      assert_match(/TXT\s+"x{200}"/, ask.call("+bufsize=512", "long.example.org", "TXT"))
      assert_match(/TXT\s+"x{200}"/, ask.call("+tcp", "+keepopen", "long.example.org", "TXT"))
      assert_match(/TYPE65280\s+\\# 3 ABCDEF/, ask.call("type.example.org", "TYPE65280"))
      probes(ask)
    end
  end

  # Those of ISC's DNS compliance tests.
  def probes(ask)
    soa = /status: NOERROR.*\sSOA\s/m
    { "+noedns" => soa, "+edns=0" => soa, "+edns=100 +noednsneg" => /status: BADVERS.*EDNS: version: 0/m, "+ednsopt=100" => soa,
      "+ednsflags=0x80" => soa, "+dnssec" => /flags: do;.*\sSOA\s/m, "+nsid" => soa, "+subnet=0.0.0.0/0" => soa, "+cookie=1234567890123456" => soa,
      "+opcode=15 +noedns" => /opcode: RESERVED15, status: NOTIMP/, "+noedns +header-only" => /status: FORMERR/, "+cdflag" => soa, "+tcp" => soa,
      "+zflag +noedns" => soa, "+aaflag" => soa, "+adflag" => soa }.each do |flags, expected|
      assert_match expected, ask.call("+nocookie", "+norecurse", *flags.split, "example.org", "SOA"), flags
    end
  end

  def test_drill_and_ldns
    drill = need_program("drill")
    serve(rules: zones) do |server|
      output = program(drill, "-p", server.port.to_s, "-b", "4096", "-D", "www.example.org", "@127.0.0.1")
      assert_match(/rcode: NOERROR.*web\.example\.org\.\s+60\s+IN\s+A\s+192\.0\.2\.80/m, output)
    end
  end

  def test_kdig_over_tls_and_https
    kdig = need_program("kdig")
    Dir.mktmpdir do |folder|
      certificates = GyreTest::Certificates.new(folder)
      ca = certificates.authority
      cert, key = certificates.issue("server")
      serve("tls://127.0.0.1:0?cert=#{cert}&key=#{key}", rules: zones) do |server|
        assert_equal ["ssl://127.0.0.1:#{server.port}"], server.endpoints.map(&:to_s)
        output = program(kdig, "@127.0.0.1", "-p", server.port.to_s, "+tls", "+tls-ca=#{ca}", "+tls-hostname=localhost", "www.example.org")
        assert_match(/TLS session.*web\.example\.org\.\s+60\s+IN\s+A\s+192\.0\.2\.80/m, output)
        over_https(kdig, server, cert, key, ca)
      end
    end
  end

  private

  def over_https(kdig, server, cert, key, certificate_authority)
    app = ->(env) { env["PATH_INFO"] == "/dns-query" ? Gyre::DNS::HTTPS.new(server).call(env) : [404, {}, []] }
    web = Gyre::Web::Server.new(app, bind: "ssl://127.0.0.1:0?cert=#{cert}&key=#{key}", out: StringIO.new, signals: false).start
    port = web.endpoints.first.port.to_s
    %w[+https +https-get].each do |way|
      output = program(kdig, "@127.0.0.1", "-p", port, way == "+https" ? way : "+https", *(way == "+https-get" ? [way] : []),
        "+tls-ca=#{certificate_authority}", "+tls-hostname=localhost", "web.example.org")
      assert_match(/HTTP session \(HTTP\/2-.*web\.example\.org\.\s+60\s+IN\s+A\s+192\.0\.2\.80/m, output)
    end
  ensure
    web&.stop
    web&.wait
  end

  def program(*command)
    output = run_program({ "LD_PRELOAD" => nil }, *command)
    assert output.status.success?, "#{command.join(" ")}\n#{output.out}#{output.err}"
    output.out
  end
end
