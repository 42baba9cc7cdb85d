# frozen_string_literal: true

# Questions that the server's loop passes on (Gyre::DNS::Forwarder): what counts as their answer,
# and what is asked again by the rules.
require "test_helper"
require "support/dns_serving"
require "support/name_servers"

class DNSForwarderTest < Minitest::Test
  include GyreTest::DNSServing
  include GyreTest::NameServers

  RD = Gyre::DNS::Message::RD
  ANSWER = "example.org 60 A 192.0.2.1"

  def teardown
    close_scripted
    super
  end

  def test_each_question_has_another_id_and_case_and_comes_back_as_the_client_wrote_it
    upstream = scripted { |bytes| reply_to(bytes, "long.name.example.org 60 A 192.0.2.1") }
    passing_on(upstream) do |server|
      20.times do
        message = ask(server, "Long.name.EXAMPLE.org", flags: RD)
        assert_equal [7, "Long.name.EXAMPLE.org", 1], [message.id, message.questions[0].name, message.answers.size]
      end
      assert_equal 0, server.stats[:waiting]
    end
    assert_operator upstream.queries.map { |bytes| bytes.byteslice(0, 2) }.uniq.size, :>, 15
    assert_operator upstream.queries.map { |bytes| bytes.byteslice(12, 23) }.uniq.size, :>, 15
  end

  def test_a_port_is_used_for_a_few_hundred_questions
    upstream = scripted { |bytes| reply_to(bytes, ANSWER) }
    passing_on(upstream) { |server| 510.times { assert_equal 1, ask(server, "example.org", flags: RD).answers.size } }
    assert_operator upstream.ports.uniq.size, :>, 1
  end

  def test_an_answer_is_asked_once_within_its_ttl_over_udp_and_tcp
    upstream = scripted { |bytes| reply_to(bytes, ANSWER) }
    passing_on(upstream, cache_bytes: 1 << 20) do |server|
      messages = Array.new(3) { |index| ask(server, index.zero? ? "EXAMPLE.org" : "Example.ORG", flags: RD) }
      messages << TCPSocket.open("127.0.0.1", server.port) do |socket|
        socket.write(framed(Gyre::DNS::Message.query("example.org", 1, id: 7, edns: nil).encode))
        read_framed(socket)
      end
      messages.each { |message| assert_equal [7, ["192.0.2.1"]], [message.id, message.answers.map { |each| each.resource.address.to_s }] }
      assert_equal "Example.ORG", messages[1].questions.first.name
      assert_equal [3, 1, 1], server.stats.values_at(:cache_hits, :cache_misses, :cache_entries)
    end
    assert_equal 1, upstream.queries.size
  end

  def test_an_absence_is_kept_and_signatures_have_answers_of_their_own
    upstream = scripted { |bytes| reply_to(bytes, rcode: 3, authority: ["org 60 SOA ns.org admin.org 1 2 3 4 300"]) }
    passing_on(upstream, cache_bytes: 1 << 20) do |server|
      2.times { assert_equal 3, ask(server, "none.org", flags: RD).rcode }
      2.times { assert_equal 3, ask(server, "none.org", flags: RD, edns: edns(flags: 0x8000)).rcode }
    end
    assert_equal 2, upstream.queries.size
  end

  def test_stale_answers_are_used_only_if_that_is_wanted_and_the_servers_fail
    answers = true
    upstream = scripted { |bytes| answers ? reply_to(bytes, "example.org 1 A 192.0.2.1") : reply_to(bytes, rcode: 2) }
    { 0 => 2, 600 => 0 }.each do |stale_s, rcode|
      answers = true
      passing_on(upstream, cache_bytes: 1 << 20, **(stale_s.positive? ? { stale_s: stale_s } : {})) do |server|
        assert_equal 0, ask(server, "example.org", flags: RD).rcode
        answers = false
        eventually do
          ask(server, "example.org", flags: RD).rcode == rcode && (stale_s.zero? || server.stats[:cache_stale].positive?)
        end
      end
    end
  end

  def test_zones_and_failures_have_the_flag_of_recursion_for_clients_that_have_it
    upstream = scripted { |bytes| reply_to(bytes, rcode: 2) }
    address = upstream.address
    [["127.0.0.0/8", true], ["192.0.2.0/25", false]].each do |network, available|
      serve(rules: zones("example.org" => ZONE) { upstream(address) && recursion(network) }) do |server|
        %w[web.example.org none.example.org other.test].each do |name|
          assert_equal available, ask(server, name, flags: RD).recursion_available?, name
        end
      end
    end
    serve(rules: zones) { |server| refute_predicate ask(server, "web.example.org", flags: RD), :recursion_available? }
  end

  def test_flags_and_edns_reach_the_upstream_and_its_code_the_client
    upstream = scripted do |bytes|
      Gyre::DNS::Message.new(bytes.unpack1("n"), Gyre::DNS::Message::QR | Gyre::DNS::Message::AA | Gyre::DNS::Message::AD, rcode: 3,
        questions: Gyre::DNS::Message.parse(bytes).questions, edns: edns(options: [[100, "x"]])).encode
    end
    passing_on(upstream) do |server|
      message = ask(server, "none.test", edns: edns(flags: 0x8000, options: [[10, "12345678"]]), flags: RD | Gyre::DNS::Message::CD)
      assert_equal [3, false, true, true], [message.rcode, message.authoritative?, message.authentic?, message.recursion_available?]
      assert_equal [0x8000, [10]], [message.edns.flags, message.edns.options.map(&:first)]
    end
    query = Gyre::DNS::Message.parse(upstream.queries.first)
    assert_equal [RD | Gyre::DNS::Message::CD, 0x8000, [], 1232], [query.flags, query.edns.flags, query.edns.options, query.edns.udp_bytes]
  end

  FORGERIES.each do |what, forge|
    define_method("test_a_packet_with_#{what.tr(" ", "_")}_does_not_count") do
      upstream = scripted { |bytes| [forge.call(reply_to(bytes, "example.org 60 A 192.0.2.66")), reply_to(bytes, ANSWER)] }
      passing_on(upstream) { |server| assert_equal ["192.0.2.1"], addresses(server) }
    end
  end

  def test_a_packet_of_another_address_does_not_count
    upstream = scripted do |bytes, _, port|
      upstream.forge(reply_to(bytes, "example.org 60 A 192.0.2.66"), port)
      reply_to(bytes, ANSWER)
    end
    passing_on(upstream) { |server| assert_equal ["192.0.2.1"], addresses(server) }
  end

  def test_truncation_and_a_name_in_another_case_are_asked_again_over_tcp
    changes = [->(bytes) { reply_to(bytes, flags: Gyre::DNS::Message::TC) },
               ->(bytes) { reply_to(bytes.b.tap { |query| query[12, 13] = query.byteslice(12, 13).swapcase }, "example.org 60 A 192.0.2.66") }]
    changes.each do |change|
      upstream = scripted { |bytes, over| over == :tcp ? reply_to(bytes, ANSWER) : change.call(bytes) }
      passing_on(upstream) { |server| assert_equal ["192.0.2.1"], addresses(server) }
      assert_operator upstream.connections, :>=, 1
    end
  end

  def test_an_interrupt_while_a_reply_is_kept_ends_the_server
    upstream = scripted { |bytes| reply_to(bytes, ANSWER) }
    assert_raises(Interrupt) do
      passing_on(upstream, cache_bytes: 1 << 20) do |server|
        server.instance_variable_get(:@cache).define_singleton_method(:store) { |*, **| raise Interrupt }
        assert_equal ["192.0.2.1"], addresses(server)
      end
    end
  end

  def test_a_failing_or_closed_server_leads_to_the_next_one
    closed = Struct.new(:address).new("127.0.0.1:#{free_port}")
    [scripted { |bytes| reply_to(bytes, rcode: 2) }, closed].each do |first|
      good = scripted { |bytes| reply_to(bytes, ANSWER) }
      passing_on(first, good) { |server| 3.times { assert_equal ["192.0.2.1"], addresses(server) } }
    end
  end

  def test_only_the_last_rule_runs_again
    runs = 0
    upstream = scripted { |bytes, over| over == :tcp ? reply_to(bytes, ANSWER) : reply_to(bytes, flags: Gyre::DNS::Message::TC) }
    address = upstream.address
    rules = proc do
      match(/org/) { (runs += 1) && next! }
      upstream(address)
    end
    serve(rules: rules) { |server| assert_equal ["192.0.2.1"], addresses(server) }
    assert_equal 1, runs
  end

  def test_an_address_of_a_rule_that_goes_on_stays_before_the_upstreams
    address = scripted { |bytes| reply_to(bytes, ANSWER) }.address
    rules = proc do
      match("example.org") { |transaction| transaction.respond!("192.0.2.9") && next! }
      upstream(address)
    end
    serve(rules: rules) { |server| assert_equal ["192.0.2.9", "192.0.2.1"], addresses(server) }
  end

  def test_open_questions_count_as_waiting_and_are_answered_after_a_reload
    gate = Thread::Queue.new
    upstream = scripted { |bytes| gate.pop && reply_to(bytes, ANSWER) }
    log = StringIO.new
    passing_on(upstream, waiting_limit: 5, log: log) do |server|
      UDPSocket.open do |socket|
        socket.connect("127.0.0.1", server.port)
        7.times { |id| socket.send(Gyre::DNS::Message.query("example.org", "A", id: id).encode, 0) }
        eventually(what: "the open questions") { server.stats.values_at(:waiting, :overload) == [5, 2] }
        server.reload
        eventually(what: "the first query") { upstream.queries.any? && gate.num_waiting == 1 }
        20.times { gate.push(true) }
        ids = Array.new(5) { (socket.wait_readable(10) or flunk) && socket.recv(512).unpack1("n") }
        assert_equal 5, ids.uniq.size
        eventually(what: "the end") { server.stats[:waiting].zero? && log.string.lines.size == 5 }
      end
      assert_match(/ 127\.0\.0\.1 example\.org IN A NoError 1\/0\/0 \d+$/, log.string.lines.first)
    end
  end

  def test_a_server_ends_with_open_questions
    upstream = scripted { nil }
    passing_on(upstream) do |server|
      assert_nil exchange(server, Gyre::DNS::Message.query("example.org", "A").encode, within_s: 0.1)
      move_objects
      eventually(what: "the question") { server.stats[:waiting] == 1 && upstream.queries.any? }
    end
  end

  MOVED = <<~RUBY
    require "gyre/dns"
    Gyre.run do |task|
      socket, upstream = Array.new(2) { UDPSocket.new.tap { |each| each.bind("127.0.0.1", 0) } }
      asked = false
      responder = Gyre::DNS::Responder.new(0)
      responder.use([], Gyre::DNS::Rules.new { otherwise { |transaction| asked = transaction.respond!("192.0.2.9") } })
      receiver = Gyre::DNS::Receiver.new(socket, responder, nil, 10)
      Array.new(10) { Gyre::DNS::Forwarder.new(upstream.local_address.to_sockaddr, "") } # close at the first tick
      open = -> { Dir.children("/proc/self/fd").size }
      before = open.call
      Process.daemon(true, true)
      $stdout.puts(socket.local_address.ip_port)
      $stdout.flush
      task.async { 1000.times { asked && open.call <= before - 10 ? break : sleep(0.01) } }.wait
      4.times { GC.start && Array.new(20_000) { Object.new } }
      Array.new(30) { UDPSocket.new.tap { |each| each.bind("127.0.0.1", 0) } }.map { |each| task.async { each.wait_readable(0.01) } }.each(&:wait)
      receiver.stop
      $stdout.puts("ended")
    end
  RUBY

  def test_receivers_and_forwarders_go_on_in_a_daemon
    IO.pipe do |reader, writer|
      pid = Process.spawn(RbConfig.ruby, "-w", "-I#{GyreTest::Helpers::LIB}", "-e", MOVED, out: writer)
      writer.close
      assert_predicate Process.wait2(pid).last, :success?
      UDPSocket.open do |socket|
        socket.connect("127.0.0.1", Integer(reader.gets))
        socket.send(Gyre::DNS::Message.query("example.org", "A").encode, 0)
        assert socket.wait_readable(10), "an answer of the daemon"
      end
      assert_equal "ended\n", reader.read
    end
  end

  private

  def passing_on(*upstreams, **settings, &block)
    addresses = upstreams.map(&:address)
    serve(rules: proc { upstream(*addresses) }, cache_bytes: 0, **settings, &block)
  end

  def addresses(server) = ask(server, "example.org", flags: RD).answers.map { |record| record.resource.address.to_s }
end
