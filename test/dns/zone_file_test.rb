# frozen_string_literal: true

# Zone files: what is read, and what is refused with its line.
require "test_helper"
require "gyre/dns/dig_text"
require "gyre/dns"
require "tmpdir"

class DNSZoneFileTest < Minitest::Test
  SOA = "@ 60 IN SOA ns root 1 2 3 4 5\n"

  # A record's text => its data in hex, as BIND's named-rrchecker -u prints it.
  DATA = {
    "A 192.0.2.1" => "c0000201",
    "AAAA 2001:db8::1" => "20010db8000000000000000000000001",
    "MX 10 mail" => "000a046d61696c076578616d706c6500",
    "MX 0 ." => "000000",
    "CNAME a\\.b.c." => "03612e62016300",
    "TXT one \"two three\" \"\\\"\\065\\;\"" => "036f6e650974776f2074687265650322413b",
    "SRV 1 2 443 x.y." => "0001000201bb0178017900",
    "CAA 0 issue \"ca.example\"" => "0005697373756563612e6578616d706c65",
    "NAPTR 1 2 \"U\" \"E2U\" \"!x!\" ." => "000100020155034532550321782100",
    "DS 60485 5 1 2BB183AF5F22588179A53B0A 98631FAD1A292118" => "ec4505012bb183af5f22588179a53b0a98631fad1a292118",
    "DNSKEY 256 3 5 AQPS KmynfzW4" => "010003050103d22a6ca77f35b8",
    "RRSIG A 5 3 86400 20030322173103 20030220173103 2642 example. oJB1" =>
      "00010503000151803e7c9dd73e5510d70a52076578616d706c6500a09075",
    "NSEC host.example. A MX RRSIG NSEC TYPE1234" =>
      "04686f7374076578616d706c65000006400100000003041b000000000000000000000000000000000000000000000000000020",
    "TLSA 3 1 1 abcd" => "030101abcd",
    "SSHFP 4 2 ab" => "0402ab",
    "TYPE65280 \\# 3 ab cdef" => "abcdef",
    "A \\# 4 c0000201" => "c0000201"
  }.freeze

  def test_data_of_each_type
    DATA.each do |text, hex|
      type, *words = text.scan(/(?:"((?:[^"\\]|\\.)*)"|(\S+))/).map(&:compact).flatten
      data = Gyre::DNS::ZoneData.parse(Gyre::DNS.type_number(type), words, "example.")
      assert_equal hex, data.unpack1("H*"), text
    end
  end

  def test_a_file_includes_others_of_its_folder
    Dir.mktmpdir do |folder|
      write = ->(name, text) { File.join(folder, name).tap { |path| File.write(path, text) } }
      zone = write.call("zone", "$TTL 60\n#{SOA}$INCLUDE hosts\n$INCLUDE hosts sub\nlast A 192.0.2.3\n")
      hosts = write.call("hosts", "$ORIGIN deep\n@ A 192.0.2.1\nrelative A 192.0.2.2\n")
      responder = Gyre::DNS::Responder.new(0)
      responder.use([Gyre::DNS::Zone.load("example", zone)], nil)
      %w[deep.example relative.deep.example relative.deep.sub.example last.example].each do |name|
        response = responder.respond(Gyre::DNS::Message.query(name, "A").encode, "")
        assert_equal [60], Gyre::DNS::Message.parse(response).answers.map(&:ttl), name
      end
      File.write(hosts, "x A 192.0.2.1\ny A broken\n")
      assert_match(%r{/zone:3: .*/hosts:2: }, assert_raises(Gyre::DNS::ZoneError) { Gyre::DNS::Zone.load("example", zone) }.message)
      File.write(hosts, "$INCLUDE zone\n")
      assert_match(/include each other/, assert_raises(Gyre::DNS::ZoneError) { Gyre::DNS::Zone.load("example", zone) }.message)
    end
  end

  def test_forms_of_a_record
    text = <<~TEXT
      ; a comment
      $TTL 1h30m
      #{SOA}
      a\tA 192.0.2.1 ; one
        IN 5 A 192.0.2.2
        5 IN A 192.0.2.3
      $ORIGIN sub.example.
      @ A 192.0.2.4
      b.example. A ( 192.0.2.5
        ) ; over two lines
      c TXT ( "a
    TEXT
    assert_match(/\Az:12: .*quote is not closed/, refused(text))
    zone = read(text.lines[0..-2].join)
    assert_equal "example", zone.origin
  end

  WRONG = {
    "a A 192.0.2.256" => /192\.0\.2\.256/, "a AAAA x" => /x/, "a A" => /missing/, "a A 192.0.2.1 x" => /one word too many/,
    "a MX x mail" => /"x" is not a number up to 65535/, "a NONSENSE x" => /NONSENSE/, "a" => /no type/, "a CH A 192.0.2.1" => /class/,
    "a.example.net. A 192.0.2.1" => /outside the zone/, "a TXT \"#{"x" * 256}\"" => /255/, "a A ( 192.0.2.1" => /parenthesis is not closed/,
    "a A 192.0.2.1 )" => /parenthesis/, "a TXT \"open" => /quote/,
    "$INCLUDE #{__dir__}/nonexistent" => /No such file/,
    "$GENERATE 1-3 h$ A 192.0.2.$" => /\$GENERATE is not known/, "$TTL x" => /time/, "$TTL" => /one word/,
    "#{"x" * 64} A 192.0.2.1" => /not a domain name/, "a..b A 192.0.2.1" => /not a domain name/, "a CNAME b\na A 192.0.2.1" => /CNAME/,
    "a TYPE65280 x" => /\\#/, "a A \\# 3 aabb" => /as many bytes/, "a DS 1 2 3 xyz" => /hexadecimal/, "a DNSKEY 1 2 3 ***" => /base64/,
    "a 99999999999 A 192.0.2.1" => /longer than a TTL/, "a TXT \\300" => /not a byte/, "$ORIGIN a..b" => /not a domain name/
  }.freeze

  def test_mistakes_are_refused_with_their_line
    WRONG.each do |line, reason|
      message = refused("$TTL 60\n#{SOA}#{line}\n")
      assert_match(/\Az:[345]: /, message, line)
      assert_match reason, message, line
    end
  end

  def test_a_zone_needs_a_ttl_a_name_and_a_soa_record
    assert_match(/\Az:1: the record has no TTL/, refused("a A 192.0.2.1\n"))
    assert_match(/\Az:1: the first record has no name/, refused("  60 A 192.0.2.1\n"))
    assert_match(/no SOA/, refused("a 60 A 192.0.2.1\n"))
    assert_match(/no SOA/, refused(""))
  end

  def test_a_file_is_loaded_by_its_path
    assert_raises(Errno::ENOENT) { Gyre::DNS::Zone.load("example", "#{__dir__}/nonexistent") }
  end

  # Data as BIND's named-checkzone -D writes it.
  FORMS = {
    'HTTPS 1 . alpn="h2,h3" port=443 ipv4hint=192.0.2.1,192.0.2.2 ipv6hint=2001:db8::1 key667="hello\210qoo" no-default-alpn mandatory=port,alpn' =>
      '1 . mandatory=alpn,port alpn="h2,h3" no-default-alpn port=443 ipv4hint=192.0.2.1,192.0.2.2 ipv6hint=2001:db8::1 key667="hello\210qoo"',
    "CLASS1 SVCB 0 foo.example.com." => "0 foo.example.com.",
    'HTTPS 1 . alpn="foo\\\\,bar,h2" ech=AEn+DQ==' => '1 . alpn="foo\\\\,bar,h2" ech=AEn+DQ==',
    'URI 10 1 "ftp://ftp1.example.com/public"' => '10 1 "ftp://ftp1.example.com/public"',
    "LOC 42 21 54 N 71 06 18 W -24m 30m" => "42 21 54.000 N 71 6 18.000 W -24.00m 30.00m 10000.00m 10.00m",
    'TXT "\#" x' => '"#" "x"'
  }.freeze

  def test_newer_types_have_their_own_form_and_a_file_without_ttl_takes_that_of_the_soa
    FORMS.each do |text, expected|
      zone = Gyre::DNS::Zone.parse("example", "@ SOA ns root 1 2 3 4 77\na #{text}\n")
      responder = Gyre::DNS::Responder.new(0)
      responder.use([zone], nil)
      type = Gyre::DNS.type_number(text.delete_prefix("CLASS1 ").split.first)
      record = Gyre::DNS::Message.parse(responder.respond(Gyre::DNS::Message.query("a.example", type).encode, "")).answers.first
      assert_equal [77, expected], [record.ttl, Gyre::DNS::DigText.data(record)]
    end
  end

  def test_mistakes_in_newer_types_are_reported
    ["HTTPS 1 . alpn=#{"x" * 256}", "HTTPS 1 . port=70000", "HTTPS 1 . color=red", "HTTPS 1 . port=1 port=2", "LOC 42 N 71", "URI 1 2",
     "CLASS3 A 192.0.2.1"]
      .each { |text| assert_raises(Gyre::DNS::ZoneError, text) { Gyre::DNS::Zone.parse("example", "@ 1 SOA ns root 1 2 3 4 77\na #{text}\n") } }
  end

  private

  def read(text) = Gyre::DNS::Zone.parse("example", text, "z")

  def refused(text) = assert_raises(Gyre::DNS::ZoneError, text) { read(text) }.message
end
