# frozen_string_literal: true

# Hostile and random messages: the codec against Ruby's resolv, and the responder, which answers any
# bytes correctly or not at all.
require "test_helper"
require "support/dns_serving"
require_relative "samples"
require_relative "../../fuzz/mutation"

class DNSResponderTest < Minitest::Test
  include GyreTest::DNSServing

  SEED = 20_261_126
  COUNT = 3000
  WORDS = ["\xc0\x0c", "\xc0\x0e", "\0", "\x3f", "\xff\xff", "\0\0\x29\x10\0\0\0\0\0\0\0", "\0\x0a\0\x08abcdefgh", "\0\1\0\1"].map(&:b).freeze

  def test_random_messages_read_as_resolv_reads_them
    random = Random.new(SEED)
    DNSSamples.messages(random, 300).each do |bytes|
      ours, theirs = Gyre::DNS::Message.parse(bytes), Resolv::DNS::Message.decode(bytes)
      assert_equal records(theirs.answer + theirs.authority + theirs.additional), records_of(ours)
      again = Resolv::DNS::Message.decode(ours.encode)
      assert_equal records(theirs.answer + theirs.authority + theirs.additional), records(again.answer + again.authority + again.additional)
    end
  end

  def test_changed_messages_are_read_as_resolv_reads_them_or_refused
    accepted = 0
    mutated do |bytes|
      ours = Gyre::DNS::Message.parse(bytes)
      next if ours.truncated? # which resolv does not read on

      theirs = Resolv::DNS::Message.decode(bytes)
      accepted += 1
      assert_equal theirs.answer.size, ours.answers.size
      assert_equal records(theirs.answer), records_of(ours).first(theirs.answer.size)
    rescue Gyre::DNS::FormatError, Resolv::DNS::DecodeError, ArgumentError
      next
    end
    assert_operator accepted, :>, 50
  end

  def test_a_cookie_is_not_a_hash_that_the_program_may_show
    responder = Gyre::DNS::Responder.new(0)
    responder.use([Gyre::DNS::Zone.parse("example", "@ 60 SOA a b 1 2 3 4 5")], nil)
    query = Gyre::DNS::Message.query("example", "SOA").tap { |made| made.edns = Gyre::DNS::EDNS.new(1232, 0, 0, [[10, "abcdefgh"]]) }
    cookie = Gyre::DNS::Message.parse(responder.respond(query.encode, Socket.sockaddr_in(53, "192.0.2.1"))).edns[10]
    shown = (cookie.byteslice(0, 16) + [192, 0, 2, 1].pack("C4")).hash
    refute_equal [shown & ((1 << 64) - 1)].pack("Q<"), cookie.byteslice(16, 8)
  end

  def test_any_bytes_get_a_correct_response_or_none
    responder = Gyre::DNS::Responder.new(0)
    responder.use([Gyre::DNS::Zone.parse("example", "$TTL 60\n@ SOA a b 1 2 3 4 5\n@ NS a\n* MX 1 a\na A 192.0.2.1\nwww CNAME a\n")], nil)
    answered = 0
    mutated do |bytes|
      response = responder.respond(bytes, "") or next
      answered += 1
      assert_equal bytes.unpack1("n"), response.unpack1("n")
      assert_equal 0, bytes.getbyte(2) & 128
      message = Gyre::DNS::Message.parse(response)
      assert_predicate message, :response?
      assert_operator message.questions.size, :<=, 1
    end
    assert_operator answered, :>, COUNT / 10
    assert_equal COUNT, responder.counts[:queries]
  end

  private

  def mutated(&block)
    random = Random.new(SEED)
    seeds = DNSSamples.messages(random, 40) + %w[a.example x.example www.example].map { |name| Gyre::DNS::Message.query(name, "MX", id: 1).encode }
    mutation = Mutation.new(random, seeds, WORDS)
    COUNT.times { block.call(mutation.call(seeds.sample(random: random)).b) }
  end

  def records_of(message)
    (message.answers + message.authority + message.additional).map { |record| [record.name, record.ttl, record.resource] }
  end

  def records(all) = all.map { |name, ttl, resource| [text(name), ttl, resource] }

  # A resolv name, with the escapes of zone files.
  def text(name)
    wire = name.to_a.map { |label| [label.string.bytesize].pack("C") + label.string.b }.join
    Gyre::DNS::Message.parse("#{"\0" * 5}\1#{"\0" * 6}#{wire}\0\0\1\0\1").questions[0].name
  end
end
