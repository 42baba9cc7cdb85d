# frozen_string_literal: true

# Rules: patterns, types, and what a block does with its transaction.
require "test_helper"
require "support/dns_serving"
require "support/name_servers"

class DNSRulesTest < Minitest::Test
  include GyreTest::DNSServing
  include GyreTest::NameServers

  NAME = Resolv::DNS::Name

  def teardown
    close_scripted
    super
  end

  def test_patterns_and_types
    rules = Gyre::DNS::Rules.new do
      match("a.example.", IN::A) { |t| t.respond!("192.0.2.1") }
      match(/\A(\d)\.example\z/, [IN::A, IN::AAAA]) { |t, match| t.respond!("192.0.2.#{match[1]}") }
      match(->(name, type) { name.end_with?(".call") && type == IN::TXT }) { |t| t.respond!("called") }
      match("any.example") { |t| t.respond!("text", resource_class: IN::TXT) }
      otherwise { |t| t.fail!(:NXDomain) }
    end
    refute_predicate rules, :empty?
    assert_equal ["192.0.2.1"], addresses(rules, "A.Example", "A")
    assert_equal 3, respond(rules, "a.example", "AAAA").rcode
    assert_equal ["192.0.2.7"], addresses(rules, "7.example", "A")
    assert_equal ["called"], respond(rules, "x.call", "TXT").answers[0].resource.strings
    assert_equal 3, respond(rules, "x.call", "A").rcode
    assert_equal ["text"], respond(rules, "any.example", "MX").answers[0].resource.strings
  end

  def test_names_of_services_match_as_they_are_and_escaped
    rules = Gyre::DNS::Rules.new do
      match("My Printer._ipp.example") { |t| t.respond!("plain", resource_class: IN::TXT) }
      match("Caf\\195\\169.example") { |t| t.append!("My Printer._ipp.example") }
    end
    ["my printer._ipp.example", "My\\032Printer._ipp.example", "CafÉ.example".downcase].each do |name|
      assert_equal ["plain"], respond(rules, name, "TXT").answers[0].resource.strings
    end
  end

  def test_next_goes_on_with_the_next_rule
    rules = Gyre::DNS::Rules.new do
      match(/x/) { next! }
      match("x") { |t| t.respond!("192.0.2.2") }
      match("x") { |t| t.respond!("192.0.2.3") }
    end
    assert_equal ["192.0.2.2"], addresses(rules, "x", "A")
    assert_equal 5, respond(rules, "xx", "A").rcode
  end

  def test_what_is_kept_of_a_name_concerns_its_rules_only
    rules = Gyre::DNS::Rules.new do
      match(/\A(\w+)\.x\z/) { |t, match| match[1] == "c" ? next! : t.respond!(match[1], resource_class: IN::TXT) }
      match("C.x") { |t| t.respond!("string", resource_class: IN::TXT) }
      otherwise { next! }
    end
    text = ->(name) { respond(rules, name, "TXT").answers[0]&.resource&.data }
    2.times { assert_equal ["a", "B", "b", "string", "string", nil], %w[a.x B.x B.X c.x c.X y].map(&text) }
    rules.match("y") { |t| t.respond!("later") }
    assert_equal "later", text.call("y")
  end

  def test_a_response_of_addresses_becomes_a_message_with_them
    rules = Gyre::DNS::Rules.new do
      match("many") { |t| 6.times { |i| t.respond!("192.0.2.#{i}", ttl: i) } }
      match("failed") do |t|
        t.respond!("192.0.2.1") && t.fail!(:NXDomain)
        t.response.authority << Gyre::DNS::Record.for("x", 1, IN::A.new("192.0.2.9"))
      end
      match("plain") { |t| t.respond!("192.0.2.1", ttl: 5) && t.fail!(:Refused) }
      match("wrong") { |t| t.respond!("not an address") }
    end
    many = respond(rules, "many", "A")
    assert_equal [[0, 1, 2, 3, 4, 5], true], [many.answers.map(&:ttl), many.authoritative?]
    failed = respond(rules, "failed", "A")
    assert_equal [3, ["failed 86400 A"], ["x 1 A"]], [failed.rcode, texts(failed.answers), texts(failed.authority)]
    plain = respond(rules, "PLAIN", "A")
    assert_equal [5, false, ["PLAIN 5 A"]], [plain.rcode, plain.authoritative?, texts(plain.answers)]
    _, err = capture { assert_equal 2, respond(rules, "wrong", "A").rcode }
    assert_match(/not an address/, err)
  end

  def test_objects_of_a_rule_cannot_reach_beyond_its_transaction
    more = Object.new
    more.define_singleton_method(:to_int) { 9.times { @transaction.respond!("192.0.2.7", ttl: 7) } && 1 }
    rules = Gyre::DNS::Rules.new do
      match("ttl") { |t| more.instance_variable_set(:@transaction, t) && t.respond!("192.0.2.1", ttl: more) }
      match("bytes") { |t| t.bytes.clear }
    end
    _, err = capture { assert_equal([2, 2], %w[ttl bytes].map { |name| respond(rules, name, "A").rcode }) }
    assert_match(/is not an Integer.*FrozenError/m, err)
  end

  def test_records_of_all_sections
    rules = Gyre::DNS::Rules.new do
      match("x", IN::MX) do |t|
        t.respond!(10, NAME.create("mail.x."), ttl: 60)
        t.add([IN::NS.new(NAME.create("ns.x."))], section: :authority, name: "x.", ttl: 5)
        t.append!("mail.x", IN::A, section: :additional)
      end
      match("mail.x", IN::A) { |t| t.add([IN::A.new("192.0.2.1"), IN::A.new("192.0.2.2")]) }
    end
    message = respond(rules, "x", "MX")
    assert_equal [["x 60 MX"], ["x 5 NS"], ["mail.x 86400 A"] * 2],
      [message.answers, message.authority, message.additional].map { |records| texts(records) }
    assert_predicate message, :authoritative?
  end

  def test_a_named_block_is_fired
    rules = Gyre::DNS::Rules.new do
      on(:found) { |t| t.respond!("192.0.2.9") }
      match("x") { |t| fire(:found, t) }
    end
    assert_equal ["192.0.2.9"], addresses(rules, "x", "A")
  end

  def test_passthrough_passes_the_reply_on
    upstream = scripted { |bytes| reply_to(bytes, "#{name_of(bytes)} 60 A 192.0.2.5") }
    with_upstream(upstream) do |server|
      message = ask(server, "Some.Example", flags: Gyre::DNS::Message::RD)
      assert_equal ["192.0.2.5"], message.answers.map { |record| record.resource.address.to_s }
      assert_equal [false, true, nil, "Some.Example"], [message.authoritative?, message.recursion_available?, message.edns, message.questions[0].name]
      assert_equal 1232, ask(server, "x", edns: edns, flags: Gyre::DNS::Message::RD).edns.udp_bytes
      assert_equal 5, ask(server, "x").rcode # without recursion
    end
  end

  def test_a_long_reply_is_truncated_for_its_client
    upstream = scripted { |bytes, _| reply_to(bytes, *Array.new(40) { |i| "#{name_of(bytes)} 60 A 192.0.2.#{i}" }) }
    with_upstream(upstream) do |server|
      message = ask(server, "many", flags: Gyre::DNS::Message::RD)
      assert_equal [true, [], "many"], [message.truncated?, message.answers, message.questions[0].name]
      assert_equal 40, ask(server, "many", edns: edns, flags: Gyre::DNS::Message::RD).answers.size
    end
  end

  def test_a_malformed_reply_is_passed_on_whether_or_not_it_is_logged
    upstream = scripted do |bytes|
      reply_to(bytes, "#{name_of(bytes)} 0 A 192.0.2.5").tap { |reply| reply[-6..] = "\0\3abc".b }
    end
    port = upstream.port
    [nil, StringIO.new].each do |log|
      _, err = capture do
        serve(rules: proc { upstream("127.0.0.1:#{port}") }, log: log) do |server|
          query = Gyre::DNS::Message.query("x", "A", id: 4660, edns: nil).encode
          assert_operator exchange(server, query), :end_with?, "\0\3abc"
        end
      end
      assert_equal log ? "gyre: DNS log: malformed record data\n" : "", err
    end
  end

  def test_a_reply_may_be_changed
    upstream = scripted { |bytes| reply_to(bytes, "#{name_of(bytes)} 60 A 192.0.2.5") }
    resolver = Gyre::DNS::Upstream.new("127.0.0.1:#{upstream.port}")
    rules = proc do
      otherwise { |t| t.passthrough!(resolver, name: "else.example") { |reply| reply.answers.each { |record| record.ttl = 1 } } }
    end
    serve(rules: rules) { |server| assert_equal ["else.example 1 A"], texts(ask(server, "x").answers) }
  ensure
    resolver&.close
  end

  def test_a_resolver_of_the_program_need_not_set_the_response_flag
    resolver = Class.new { def forward(query) = query }.new
    serve(rules: proc { otherwise { |t| t.passthrough!(resolver, force: true) } }) { |server| assert_predicate ask(server, "x"), :response? }
  end

  def test_only_this_machine_is_served_by_an_upstream_unless_networks_are_named
    clients = ["127.0.0.1", "::ffff:127.0.0.1", "192.0.2.1", "192.0.3.1", "2001:db8::7", "2001:db9::7"]
    allowed = ->(rules) { clients.map { |address| rules.recursive?(transaction(rules, "x", address: address).sockaddr) } }
    rules = Gyre::DNS::Rules.new
    assert_equal [true, true, false, false, false, false], allowed.call(rules)
    refute rules.recursive?("")
    rules.recursion("192.0.2.0/23", "2001:db8::/32")
    assert_equal [false, false, true, true, true, false], allowed.call(rules)
    assert_includes assert_raises(ArgumentError) { rules.recursion("no network") }.message, '"no network" is not'
    upstream = scripted { flunk "asked" }
    with_upstream(upstream, networks: ["192.0.2.0/24"]) { |server| assert_equal 5, ask(server, "x", flags: Gyre::DNS::Message::RD).rcode }
  end

  def test_an_upstream_that_is_silent_gives_servfail
    rules = proc { otherwise { |t| t.passthrough!(Class.new { def forward(_) = nil }.new, force: true) } }
    serve(rules: rules) { |server| assert_equal [2, false], ask(server, "x").then { |message| [message.rcode, message.authoritative?] } }
  end

  private

  def with_upstream(upstream, networks: nil, &block)
    port = upstream.port
    serve(rules: proc { upstream("127.0.0.1:#{port}") && (recursion(*networks) if networks) }, &block)
  end

  def transaction(rules, name, type = "A", address: nil)
    responder = Gyre::DNS::Responder.new(0)
    responder.use([], rules)
    responder.respond(Gyre::DNS::Message.query(name, type, edns: nil).encode, address ? Socket.sockaddr_in(0, address) : "")
  end

  def respond(rules, name, type)
    transaction = transaction(rules, name, type)
    Gyre::DNS::Message.parse(rules.call(transaction) || transaction.encode)
  end

  def addresses(rules, name, type) = respond(rules, name, type).answers.map { |record| record.resource.address.to_s }
end
