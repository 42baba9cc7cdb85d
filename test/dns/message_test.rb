# frozen_string_literal: true

# DNS messages in Ruby: what is written reads the same, here and in Ruby's resolv.
require "test_helper"
require "gyre/dns"

class DNSMessageTest < Minitest::Test
  IN = Resolv::DNS::Resource::IN
  NAME = Resolv::DNS::Name
  RESOURCES = [
    IN::A.new("192.0.2.1"), IN::AAAA.new("2001:db8::1"), IN::NS.new(NAME.create("ns.example.org.")),
    IN::CNAME.new(NAME.create("example.net.")), IN::PTR.new(NAME.create("a.example.org.")),
    IN::MX.new(10, NAME.create("mail.example.org.")), IN::TXT.new("one", "two"), IN::SRV.new(1, 2, 3, NAME.create("x.example.org.")),
    IN::SOA.new(NAME.create("ns.example.org."), NAME.create("root.example.org."), 1, 2, 3, 4, 5), IN::HINFO.new("a", "b")
  ].freeze

  def test_resources_survive_a_message
    message = answer(RESOURCES)
    parsed = Gyre::DNS::Message.parse(message.encode)
    assert_equal RESOURCES, parsed.answers.map(&:resource)
    assert_equal message.encode, parsed.encode
    assert_equal [60], parsed.answers.map { |record| record.resource.ttl }.uniq
  end

  def test_resolv_reads_what_is_written
    decoded = Resolv::DNS::Message.decode(answer(RESOURCES).encode)
    assert_equal RESOURCES, decoded.answer.map(&:last)
    assert_equal [NAME.create("www.Example.org.")], decoded.answer.map(&:first).uniq
  end

  def test_what_resolv_writes_is_read
    theirs = Resolv::DNS::Message.new(9)
    RESOURCES.each { |resource| theirs.add_answer("www.example.org.", 5, resource) }
    parsed = Gyre::DNS::Message.parse(theirs.encode)
    assert_equal RESOURCES, parsed.answers.map(&:resource)
    assert_equal [9, 5, "www.example.org"], [parsed.id, parsed.answers[0].ttl, parsed.answers[0].name]
  end

  def test_texts_are_bytes
    message = answer([IN::TXT.new("äöü", "\xff".b)])
    assert_equal ["äöü".b, "\xff".b], Gyre::DNS::Message.parse(message.encode).answers[0].resource.strings.map(&:b)
    assert_raises(ArgumentError) { answer([IN::TXT.new("ä" * 128)]) }
  end

  def test_types_that_resolv_does_not_know_stay_bytes
    message = answer([])
    message.answers << Gyre::DNS::Record.new("a", 65_280, 1, 7, "\0raw".b)
    record = Gyre::DNS::Message.parse(message.encode).answers[0]
    assert_equal "\0raw".b, record.data
    assert_equal "\0raw".b, record.resource.data
  end

  def test_an_opt_record_carries_rcode_size_and_options
    message = answer([])
    message.rcode = :BADVERS
    message.edns = Gyre::DNS::EDNS.new(1232, 0, Gyre::DNS::EDNS::DO, [[10, "12345678"], [3, ""]])
    parsed = Gyre::DNS::Message.parse(message.encode)
    assert_equal [16, message.edns], [parsed.rcode, parsed.edns]
    assert_equal ["12345678", "", nil], [parsed.edns[10], parsed.edns[3], parsed.edns[4]]
    assert_predicate parsed.edns, :dnssec?
  end

  def test_a_long_message_is_truncated_with_its_question
    message = answer([IN::TXT.new("x" * 200)] * 5)
    message.edns = Gyre::DNS::EDNS.new(1232, 0, 0, [])
    parsed = Gyre::DNS::Message.parse(message.encode(limit: 512))
    assert_predicate parsed, :truncated?
    assert_equal [message.questions, [], message.edns], [parsed.questions, parsed.answers, parsed.edns]
  end

  def test_additional_records_are_left_out_without_truncation
    message = answer([])
    5.times { message.additional << Gyre::DNS::Record.for("a", 1, IN::TXT.new("x" * 200)) }
    parsed = Gyre::DNS::Message.parse(message.encode(limit: 512))
    refute_predicate parsed, :truncated?
    assert_equal 2, parsed.additional.size
  end

  def test_wrong_parts_get_an_error
    message = Gyre::DNS::Message.new(1)
    { Gyre::DNS::Record.new("a..b", 1, 1, 1, "1234") => ArgumentError, Gyre::DNS::Record.new("a", 1, 1, 1, "123") => ArgumentError,
      Gyre::DNS::Record.new("a", 2, 1, 1, "\xc0\x0c") => ArgumentError, Gyre::DNS::Record.new(nil, 1, 1, 1, "1234") => TypeError,
      Gyre::DNS::Record.new("a", 70_000, 1, 1, "1") => ArgumentError, Gyre::DNS::Record.new("a", 1, 1, nil, "1234") => TypeError,
      "text" => TypeError }.each do |record, error|
      message.answers.replace([record])
      assert_raises(error, record.inspect) { message.encode }
    end
  end

  def test_bytes_that_are_no_message_get_an_error
    whole = answer(RESOURCES).encode
    (0...whole.bytesize).each do |length|
      assert_raises(Gyre::DNS::FormatError) { Gyre::DNS::Message.parse(whole.byteslice(0, length)) }
    end
    assert_raises(Gyre::DNS::FormatError) { Gyre::DNS::Message.parse("#{Gyre::DNS::Message.query("a", 1).encode}\0") }
    assert_equal Gyre::DNS::Message.parse(whole), Gyre::DNS::Message.parse("#{whole}\0"), "some servers send more behind a reply"
  end

  def test_types_and_codes_have_names
    assert_equal [1, 28, 65_280, 15], ["A", :aaaa, "TYPE65280", IN::MX].map { |type| Gyre::DNS.type_number(type) }
    assert_equal %w[A TYPE65280], [1, 65_280].map { |number| Gyre::DNS.type_name(number) }
    assert_equal [:NXDomain, :NoError, 99], [3, 0, 99].map { |number| Gyre::DNS.rcode_name(number) }
    ["NONSENSE", "TYPE65536", -1, nil].each { |type| assert_raises(ArgumentError) { Gyre::DNS.type_number(type) } }
  end

  def test_a_query_asks_with_edns
    query = Gyre::DNS::Message.parse(Gyre::DNS::Message.query("example.org.", "MX", id: 5).encode)
    assert_equal [5, "example.org IN MX", true, 1232],
      [query.id, query.questions[0].to_s, query.recursion_desired?, query.edns.udp_bytes]
    assert_equal IN::MX, query.questions[0].resource_class
  end

  private

  def answer(resources)
    message = Gyre::DNS::Message.new(7, Gyre::DNS::Message::QR, questions: [Gyre::DNS::Question.new("www.Example.org", 1, 1)])
    resources.each { |resource| message.answers << Gyre::DNS::Record.for("www.Example.org", 60, resource) }
    message
  end

  def test_no_class_is_kept_for_types_that_clients_choose
    classes = -> { GC.start && ObjectSpace.each_object(Resolv::DNS::Resource::Generic.singleton_class).count }
    before = classes.call
    data = (20_000..20_300).map do |type|
      record = Gyre::DNS::Record.new("x", type, 1, 60, "abc")
      assert_equal [type, 1, "abc"], [record.resource.class::TypeValue, record.resource.class::ClassValue, record.resource.data]
      assert_equal type, Gyre::DNS::Question.new("x", type, 1).resource_class::TypeValue
      Gyre::DNS::Record.for("x", 60, record.resource).data
    end
    assert_equal ["abc"], data.uniq
    assert_operator classes.call, :<, before + 20
  end
end
