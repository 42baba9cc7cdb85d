# frozen_string_literal: true

# Answers from a zone: RFC 1034's algorithm, wildcards, aliases, delegations, absence, DNSSEC's
# records.
require "test_helper"
require "support/dns_serving"

class DNSZoneTest < Minitest::Test
  include GyreTest::DNSServing

  # name, type => rcode, authoritative, answer, authority, additional
  CASES = {
    %w[web.example.org A] => [0, true, ["web.example.org 60 A"], [], []],
    %w[WEB.example.ORG A] => [0, true, ["WEB.example.ORG 60 A"], [], []],
    %w[www.example.org A] => [0, true, ["www.example.org 3600 CNAME", "web.example.org 60 A"], [], []],
    %w[Www.eXample.org A] => [0, true, ["Www.eXample.org 3600 CNAME", "web.example.org 60 A"], [], []],
    %w[www.example.org CNAME] => [0, true, ["www.example.org 3600 CNAME"], [], []],
    %w[www.example.org AAAA] => [0, true, ["www.example.org 3600 CNAME"], ["example.org 300 SOA"], []],
    %w[example.org MX] => [0, true, ["example.org 3600 MX"], [], []],
    %w[example.org NS] => [0, true, ["example.org 3600 NS"] * 2, [], ["ns.example.org 3600 A"]],
    %w[example.org AAAA] => [0, true, [], ["example.org 300 SOA"], []],
    %w[none.example.org A] => [3, true, [], ["example.org 300 SOA"], []],
    %w[x.web.example.org A] => [3, true, [], ["example.org 300 SOA"], []],
    %w[b.c.example.org A] => [0, true, [], ["example.org 300 SOA"], []],
    %w[x.wild.example.org TXT] => [0, true, ["x.wild.example.org 3600 TXT"], [], []],
    %w[y.x.wild.example.org TXT] => [0, true, ["y.x.wild.example.org 3600 TXT"], [], []],
    %w[x.wild.example.org A] => [0, true, [], ["example.org 300 SOA"], []],
    %w[wild.example.org TXT] => [0, true, [], ["example.org 300 SOA"], []],
    %w[*.wild.example.org TXT] => [0, true, ["*.wild.example.org 3600 TXT"], [], []],
    %w[x.sub.example.org A] => [0, false, [], ["sub.example.org 3600 NS"], ["ns.sub.example.org 3600 A"]],
    %w[sub.example.org NS] => [0, false, [], ["sub.example.org 3600 NS"], ["ns.sub.example.org 3600 A"]],
    %w[sub.example.org DS] => [0, true, [], ["example.org 300 SOA"], []],
    %w[example.org ANY] => [0, true, ["example.org 3600 SOA"], [], []],
    %w[www.example.org ANY] => [0, true, ["www.example.org 3600 CNAME"], [], []],
    %w[loop.example.org A] => [0, true, ["loop.example.org 3600 CNAME"], [], []],
    %w[far.example.org A] => [0, true, ["far.example.org 3600 CNAME"], [], []],
    %w[to.example.org A] => [0, true, ["to.example.org 3600 CNAME", "a.other.example 60 A"], [], []],
    %w[example.com A] => [5, false, [], [], []],
    %w[org A] => [5, false, [], [], []]
  }.freeze

  def test_answers_follow_the_zone
    serve(rules: zones("example.org" => ZONE, "other.example" => OTHER)) do |server|
      CASES.each do |(name, type), expected|
        message = ask(server, name, type, edns: edns)
        found = [message.rcode, message.authoritative?, *[message.answers, message.authority, message.additional].map { |all| texts(all) }]
        assert_equal expected, found, "#{name} #{type}"
      end
    end
  end

  def test_unknown_types_and_texts_are_served_as_they_are
    serve(rules: zones) do |server|
      assert_equal "\xab\xcd\xef".b, ask(server, "type.example.org", 65_280).answers[0].data
      assert_equal ["a b", "c"], ask(server, "x.wild.example.org", "TXT").answers[0].resource.strings
    end
  end

  SIGNED = <<~TEXT
    $TTL 300
    @ SOA ns root 1 2 3 4 60
    @ NS ns
    @ RRSIG SOA 13 2 300 20300101000000 20200101000000 1 example. AAAA
    @ NSEC b.example. NS SOA RRSIG NSEC
    ns A 192.0.2.1
    b A 192.0.2.2
    b RRSIG A 13 2 300 20300101000000 20200101000000 1 example. AAAA
    b NSEC *.d.example. A RRSIG NSEC
    *.d A 192.0.2.3
    *.d NSEC *.out.example. A RRSIG NSEC
    *.out CNAME x.other.
    *.one CNAME x.d
    *.out RRSIG CNAME 13 3 300 20300101000000 20200101000000 1 example. AAAA
    *.out NSEC sub.example. CNAME RRSIG NSEC
    sub NS ns.sub
    sub NSEC example. NS RRSIG NSEC
    ns.sub A 192.0.2.4
  TEXT
  SIGNED_CASES = {
    %w[b.example A] => [["b.example 300 A", "b.example 300 RRSIG"], []],
    %w[c.example A] => [[], ["example 60 SOA", "example 60 RRSIG", "b.example 300 NSEC", "example 300 NSEC"]],
    %w[b.example MX] => [[], ["example 60 SOA", "example 60 RRSIG", "b.example 300 NSEC"]],
    %w[x.d.example A] => [["x.d.example 300 A"], ["*.d.example 300 NSEC"]],
    %w[x.d.example MX] => [[], ["*.d.example 300 NSEC", "example 60 SOA", "example 60 RRSIG"]],
    %w[d.example A] => [[], ["example 60 SOA", "example 60 RRSIG", "b.example 300 NSEC"]],
    %w[x.out.example A] => [["x.out.example 300 CNAME", "x.out.example 300 RRSIG"], ["*.out.example 300 NSEC"]],
    %w[x.one.example A] => [["x.one.example 300 CNAME", "x.d.example 300 A"], ["*.d.example 300 NSEC"]], # covers both
    %w[*.out.example RRSIG] => [["*.out.example 300 RRSIG"], []],
    %w[x.sub.example A] => [[], ["sub.example 300 NS", "sub.example 300 NSEC"]]
  }.freeze

  def test_signatures_and_proofs_come_only_if_they_are_wanted
    serve(rules: zones("example" => SIGNED)) do |server|
      SIGNED_CASES.each do |(name, type), expected|
        message = ask(server, name, type, edns: edns(flags: Gyre::DNS::EDNS::DO))
        assert_equal expected, [texts(message.answers), texts(message.authority)], "#{name} #{type}"
        plain = ask(server, name, type, edns: edns)
        assert_empty((plain.answers + plain.authority).map(&:type) & [46, 47] - [Gyre::DNS.type_number(type)])
      end
    end
  end

  def test_each_wildcard_on_the_way_has_its_proof_across_zones_too
    other = "$TTL 60\n@ SOA ns root 1 2 3 4 5\n@ NSEC * NS SOA RRSIG NSEC\n* A 192.0.2.3\n* NSEC @ A RRSIG NSEC\n"
    serve(rules: zones("example" => SIGNED, "other" => other)) do |server|
      authority = ask(server, "x.out.example", edns: edns(flags: Gyre::DNS::EDNS::DO)).authority
      assert_equal ["*.out.example 300 NSEC", "*.other 60 NSEC"], texts(authority)
    end
  end

  def test_the_closest_of_many_zones_answers
    zones = (1..50).flat_map { |index| ["z#{index}.example", "sub.z#{index}.example"] }
    text = ->(origin) { "$TTL 60\n@ SOA ns root 1 2 3 4 5\n* TXT #{origin}\n" }
    responder = Gyre::DNS::Responder.new(0)
    responder.use([*zones, "."].map { |origin| Gyre::DNS::Zone.parse(origin, text.call(origin)) }, nil)
    { "a.z7.example" => "z7.example", "A.b.SUB.z50.EXAMPLE" => "sub.z50.example", "a.sub.z51.example" => ".", "example" => "." }.each do |name, zone|
      response = Gyre::DNS::Message.parse(responder.respond(Gyre::DNS::Message.query(name, "TXT").encode, ""))
      assert_equal [zone], response.answers.first.resource.strings, name
    end
  end

  def test_records_of_a_set_have_the_first_ones_ttl
    zone = "@ 60 SOA ns root 1 2 3 4 5\na 60 A 192.0.2.1\na 90 A 192.0.2.2\na 30 TXT x\n"
    serve(rules: zones("example" => zone)) { |server| assert_equal [60, 60], ask(server, "a.example").answers.map(&:ttl) }
  end

  def test_a_referral_whose_glue_does_not_fit_is_truncated
    glue = Array.new(40) { |number| "ns.sub A 192.0.2.#{number}\n" }.join
    serve(rules: zones("example" => "$TTL 300\n@ SOA ns root 1 2 3 4 60\nsub NS ns.sub\n#{glue}")) do |server|
      assert_predicate ask(server, "x.sub.example"), :truncated?
      assert_equal [false, 40], ask(server, "x.sub.example", edns: edns).then { |message| [message.truncated?, message.additional.size] }
    end
  end

  def test_a_zone_checks_its_records
    zone = Gyre::DNS::Zone.new("Example.org")
    assert_equal "example.org", zone.origin
    assert_raises(ArgumentError) { zone.finish }
    assert_raises(ArgumentError) { zone.add("example.com", 1, 1, "1234") }
    assert_raises(ArgumentError) { zone.add("a.example.org", 1, 1, "123") }
    assert_raises(ArgumentError) { zone.add("a.example.org", 6, 1, "\0\0#{"\0" * 20}") }
    zone.add("a.example.org", 1, 1, "1234").add("a.example.org", 1, 1, "1234")
    assert_raises(ArgumentError) { zone.add("a.example.org", 5, 1, "\1b\0") }
    zone.add("example.org", 6, 1, "\0\0#{"\0" * 20}").finish
    assert_raises(FrozenError) { zone.add("b.example.org", 1, 1, "1234") }
    assert_raises(ArgumentError) { Gyre::DNS::Responder.new(0).use([Gyre::DNS::Zone.new("a")], nil) }
    assert_raises(TypeError) { Gyre::DNS::Zone.allocate }
  end
end
