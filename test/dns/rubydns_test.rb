# frozen_string_literal: true

# RubyDNS's programs, unchanged, on this server: its README's and its examples' ways of writing.
require "test_helper"
require "support/name_servers"

class DNSRubyDNSTest < Minitest::Test
  include GyreTest::NameServers

  PROGRAM = <<~'RUBY'
    require 'rubydns'
    port = Integer(ARGV.fetch(0))
    INTERFACES = [[:udp, "127.0.0.1", port], [:tcp, "127.0.0.1", port]]
    IN = Resolv::DNS::Resource::IN
    Name = Resolv::DNS::Name
    UPSTREAM = RubyDNS::Resolver.new([[:udp, "127.0.0.1", port], [:tcp, "127.0.0.1", port]])

    RubyDNS::run_server(listen: INTERFACES) do
      on(:start) { }
      match(%r{^test\.local$}, IN::A) { |transaction| transaction.respond!("10.0.0.80") }
      match(/^([0-9]+)\.example$/, IN::A) { |transaction, match_data| transaction.respond!("10.0.0.#{match_data[1]}", {ttl: 5}) }
      match("mail.local", [IN::MX, IN::A]) do |transaction|
        transaction.respond!(10, Name.create("mx.local."), resource_class: IN::MX)
        transaction.append!("test.local", IN::A, section: :additional)
        transaction.response.aa = 0
      end
      match("skip.local") { next! }
      match("skip.local") { |transaction| transaction.fail!(:NotAuth) }
      match("question.local") { |transaction| transaction.respond!(transaction.question.to_s + " #{transaction.query.rd}", resource_class: IN::TXT) }
      match("through.local", IN::A) { |transaction| transaction.passthrough!(UPSTREAM, name: "test.local") }
      match("raw.local") { |transaction| transaction.response.add_answer(transaction.name + ".", 7, IN::A.new("10.0.0.7")) }
      otherwise { |transaction| transaction.fail!(:NXDomain) }
    end
  RUBY

  SUBCLASS = <<~'RUBY'
    require 'async/dns'
    class Own < Async::DNS::Server
      def process(name, resource_class, transaction)
        transaction.respond!("10.1.1.1", resource_class: Resolv::DNS::Resource::IN::A) if name == "own"
      end
    end
    Own.new(Async::DNS::Endpoint.for("127.0.0.1", port: Integer(ARGV.fetch(0)))).run
  RUBY

  def test_a_program_runs_unchanged
    with_program(PROGRAM) do |port|
      assert_equal [0, "10.0.0.80"], first(port, "test.local")
      assert_equal [0, "10.0.0.7"], first(port, "7.example")
      message = ask(port, "mail.local", "MX")
      assert_equal [[15], [1], false], [message.answers.map(&:type), message.additional.map(&:type), message.authoritative?]
      assert_equal 9, ask(port, "skip.local").rcode
      assert_equal ["question.local 1"], ask(port, "question.local", "TXT").answers[0].resource.strings
      assert_equal [0, "10.0.0.80"], first(port, "through.local")
      assert_equal [0, "10.0.0.7"], first(port, "raw.local")
      assert_equal 3, ask(port, "none.local").rcode
    end
  end

  def test_a_subclass_answers_in_process
    with_program(SUBCLASS) { |port| assert_equal [0, "10.1.1.1"], first(port, "own") }
  end

  OWN_TESTS = <<~'RUBY'
    require "rubydns"
    require "async/dns/extensions/string"
    IN = Resolv::DNS::Resource::IN
    made = lambda do |type, server = nil|
      Async::DNS::Transaction.new(server, Resolv::DNS::Message.new(7), Resolv::DNS::Name.create("foo.bar."), type, nil)
    end
    rule = RubyDNS::Rule.for([/^f(o+)/, IN::A]) { |transaction, found| transaction.respond!("10.0.0.#{found[1].size}") }
    transaction = made.call(IN::A)
    p rule.call(nil, "bar", IN::A, transaction), rule.call(nil, "foobar", IN::TXT, transaction), rule.call(nil, "foobar", IN::A, transaction)
    p transaction.response.id, transaction.response.answer.map { |name, ttl, resource| [name.to_s, ttl, resource.address.to_s] }
    p RubyDNS::RuleBasedServer::Rule.new([->(name, _) { name.size == 3 }], proc { true }).call(nil, "foo", IN::A, transaction)
    server = RubyDNS::Server.new([])
    server.match("other") { |found| found.respond!("10.1.1.1") }
    p made.call(IN::A, server).tap { |found| found.append!("other") }.response.answer.map { |_, _, resource| resource.address.to_s }
    p ("x" * 300).chunked.map(&:size)
    endpoints = [[:tcp, "127.0.0.1", 5353], [:udp, "127.0.0.2", 53], [:tcp, "127.0.0.2", 53]]
    puts Async::DNS::Resolver.new(endpoints).upstream.servers.join(" ")
  RUBY

  def test_rules_and_transactions_stand_alone_as_in_its_tests
    output = run_program(*ruby_command("-rgyre/dns/rubydns", "-e", OWN_TESTS))
    assert_equal "false\nfalse\ntrue\n7\n[[\"foo.bar\", 86400, \"10.0.0.2\"]]\ntrue\n[\"10.1.1.1\"]\n[255, 45]\n" \
                 "udp://127.0.0.2:53 tcp://127.0.0.1:5353\n", output.out, output.err
  end

  private

  def with_program(text)
    port = free_port
    Tempfile.create(["rubydns", ".rb"]) do |file|
      file.write(text)
      file.flush
      with_subprocess(*ruby_command("-rgyre/dns/rubydns", file.path, port.to_s)) do
        eventually(what: "the server") { open?(port) }
        yield port
      end
    end
  end

  def ask(port, name, type = "A")
    UDPSocket.open do |socket|
      socket.connect("127.0.0.1", port)
      socket.send(Gyre::DNS::Message.query(name, type).encode, 0)
      socket.wait_readable(10) or flunk "no response for #{name}"
      Gyre::DNS::Message.parse(socket.recv(65_535))
    end
  end

  def first(port, name) = ask(port, name).then { |message| [message.rcode, message.answers.last&.resource&.address.to_s] }
end
