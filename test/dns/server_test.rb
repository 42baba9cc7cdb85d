# frozen_string_literal: true

# The server over its sockets: what is answered, dropped, refused or truncated. Several cases are
# what RubyDNS gets wrong.
require "test_helper"
require "support/certificates"
require "support/dns_serving"

class DNSServerTest < Minitest::Test
  include GyreTest::DNSServing

  Message = Gyre::DNS::Message

  # --- faults of RubyDNS ---

  def test_a_response_is_as_long_as_the_client_takes
    serve(rules: zones) do |server|
      message = ask(server, "long.example.org", "TXT", edns: edns(4096))
      refute_predicate message, :truncated?
      assert_equal 1, message.answers.size
      assert_equal [1232, 0], [message.edns.udp_bytes, message.edns.version]
    end
  end

  def test_a_truncated_response_is_a_response_with_its_question
    serve(rules: zones { otherwise { |t| t.respond!("x" * 250, "y" * 250, "z" * 250) } }) do |server|
      %w[long.example.org by.rule].each do |name|
        [nil, edns(512), edns(100)].each do |offered|
          message = ask(server, name, "TXT", edns: offered, flags: Message::RD)
          assert_predicate message, :response?
          assert_predicate message, :truncated?
          assert_predicate message, :recursion_desired?
          assert_equal [7, name, [], offered.nil?], [message.id, message.questions[0].name, message.answers, message.edns.nil?]
        end
      end
    end
  end

  def test_malformed_requests_get_formerr_with_their_id
    serve(rules: zones) do |server|
      query = Message.query("www.example.org", "A", id: 4660, edns: nil).encode
      [query.byteslice(0, 20), "#{query}\0", query.byteslice(0, 12), "#{query.byteslice(0, 12)}\xc0\x0c\0\1\0\1".b].each do |bytes|
        response = exchange(server, bytes)
        assert_equal [4660, 1], [response.unpack1("n"), response.getbyte(3) & 15], bytes.inspect
        assert_equal 128, response.getbyte(2) & 128
      end
      assert unanswered?(server, query.byteslice(0, 11))
      assert unanswered?(server, "")
    end
  end

  def test_answers_are_not_answered
    serve(rules: zones) do |server|
      assert unanswered?(server, Message.query("www.example.org", "A", flags: Message::QR).encode)
      assert_equal 1, server.stats[:dropped]
    end
  end

  def test_questions_without_a_rule_are_refused
    serve(rules: proc { match("known.example") { |t| t.respond!("192.0.2.1") } }) do |server|
      assert_equal [5, false], ask(server, "other.example").then { |message| [message.rcode, message.authoritative?] }
      assert_equal 0, ask(server, "KNOWN.example").rcode
    end
  end

  def test_a_request_has_one_question
    serve(rules: zones) do |server|
      query = Message.query("www.example.org", "A", edns: nil)
      query.questions.concat(query.questions)
      assert_equal 1, Message.parse(exchange(server, query.encode)).rcode
      query.questions.clear
      assert_equal 1, Message.parse(exchange(server, query.encode)).rcode
    end
  end

  def test_other_operations_are_not_implemented
    serve(rules: zones) do |server|
      [1, 2, 4, 5, 15].each do |opcode|
        message = ask(server, "www.example.org", flags: opcode << 11)
        assert_equal [4, opcode], [message.rcode, message.opcode]
      end
    end
  end

  def test_responses_over_tcp_leave_when_they_are_ready
    gate = Thread::Queue.new
    serve(rules: proc { match("late") { |t| gate.pop && t.respond!("192.0.2.1") }; otherwise { |t| t.respond!("192.0.2.2") } }) do |server|
      TCPSocket.open("127.0.0.1", server.port) do |socket|
        socket.write(%w[late soon].each_with_index.map { |name, id| framed(Message.query(name, "A", id: id).encode) }.join)
        assert_equal 1, read_framed(socket).id
        gate.push(true)
        assert_equal 0, read_framed(socket).id
        socket.close_write
        assert_nil read_framed(socket)
      end
    end
  end

  def test_an_idle_connection_is_closed
    serve(rules: zones, idle_timeout_s: 0.05) do |server|
      TCPSocket.open("127.0.0.1", server.port) { |socket| assert_nil socket.read(1) }
    end
  end

  def test_a_rule_may_take_longer_than_a_connection_may_idle
    serve(rules: proc { otherwise { |t| sleep(0.2) && t.respond!("192.0.2.1") } }, idle_timeout_s: 0.05) do |server|
      TCPSocket.open("127.0.0.1", server.port) do |socket|
        socket.write(framed(Message.query("x", "A").encode))
        assert_equal 1, read_framed(socket).answers.size
        assert_nil socket.read(1)
      end
    end
  end

  def test_a_client_that_resets_at_once_is_not_reported
    _, err = capture do
      serve(rules: zones) do |server|
        30.times { TCPSocket.open("127.0.0.1", server.port) { |socket| socket.setsockopt(:SOCKET, :LINGER, [1, 0].pack("ii")) } }
        eventually(what: "the end of the connections") { ask(server, "web.example.org") && server.stats[:connections].zero? }
      end
    end
    refute_match(/unhandled/, err)
  end

  def test_connections_are_limited
    serve(rules: zones, connections_limit: 1) do |server|
      TCPSocket.open("127.0.0.1", server.port) do |first|
        first.write(framed(Message.query("web.example.org", "A").encode))
        assert_equal 1, read_framed(first).answers.size
        TCPSocket.open("127.0.0.1", server.port) { |second| assert_nil(second.read(1)) }
        assert_equal 1, server.stats[:connections]
      end
    end
  end

  def test_a_failing_rule_answers_servfail_and_is_reported
    _, err = capture do
      serve(rules: proc { otherwise { raise "broken" } }) do |server|
        assert_equal [2, false], ask(server, "x").then { |message| [message.rcode, message.authoritative?] }
        assert_equal 2, ask(server, "x").rcode
      end
    end
    assert_match(/broken \(RuntimeError\)/, err)
  end

  def test_other_exceptions_of_a_rule_answer_servfail_too
    _, err = capture do
      serve(rules: proc { match("loop") { |t| t.append!("loop") }; otherwise { require "gyre/nonesuch" } }) do |server|
        assert_equal [2, 2], [ask(server, "loop").rcode, ask(server, "x").rcode]
        assert_equal 2, Thread.new { Message.parse(server.answer(Message.query("x", "A").encode, "")).rcode }.value
      end
    end
    assert_match(/stack level too deep/, err)
    assert_equal 2, err.scan(/nonesuch \(LoadError\)/).size
  end

  def test_a_malformed_record_after_the_question_gets_formerr
    serve(rules: zones { otherwise { |t| t.respond!("192.0.2.1") if t.query } }) do |server|
      query = Message.query("x", "A", id: 4660, edns: nil).encode
      query[11] = "\1"
      response = Message.parse(exchange(server, query << "\0\0\1\0\1\0\0\0\0\0\3abc".b))
      assert_equal [4660, 1, true], [response.id, response.rcode, response.response?]
      assert_equal 5, Message.parse(exchange(server, Message.query("x", "A", "ANY", edns: nil).encode)).rcode
    end
  end

  # --- memory ---

  def test_the_collector_may_move_objects_while_it_serves
    serve(rules: proc { otherwise { |t| t.respond!("192.0.2.1") } }) do |server|
      move_objects
      assert_equal 1, ask(server, "x").answers.size
    end
  end

  def test_a_connection_keeps_nothing_of_answered_questions
    serve(rules: proc { otherwise { |t| t.respond!("192.0.2.1") } }) do |server|
      TCPSocket.open("127.0.0.1", server.port) do |socket|
        query = framed(Message.query("x", "A").encode)
        300.times { socket.write(query) && read_framed(socket) }
        GC.start
        assert_operator ObjectSpace.each_object(Gyre::Task).count(&:finished?), :<, 250
      end
    end
  end

  def test_a_client_that_reads_nothing_is_cut
    texts = Array.new(200) { "x" * 250 }
    serve(rules: proc { otherwise { |t| t.respond!(*texts) } }, idle_timeout_s: 0.2) do |server|
      TCPSocket.open("127.0.0.1", server.port) do |socket|
        query = framed(Message.query("x", "TXT", edns: nil).encode)
        assert_raises(SystemCallError) { loop { socket.write(query) } }
        eventually(what: "the end of the connection") { server.stats.values_at(:connections, :waiting) == [0, 0] }
        assert_operator server.stats[:queries], :<, 1000
      end
    end
  end

  def test_a_message_without_bytes_ends_a_connection
    serve(rules: zones) do |server|
      TCPSocket.open("127.0.0.1", server.port) { |socket| socket.write("\0\0") && assert_nil(socket.read(1)) }
    end
  end

  # --- EDNS ---

  def test_a_later_version_of_edns_gets_badvers
    serve(rules: zones) do |server|
      message = ask(server, "www.example.org", edns: edns(version: 1))
      assert_equal [16, 0, []], [message.rcode, message.edns.version, message.answers]
    end
  end

  def test_unknown_options_and_flags_are_ignored
    serve(rules: zones) do |server|
      message = ask(server, "web.example.org", edns: edns(flags: 0x8040, options: [[100, "x"], [65_001, ""]]))
      assert_equal [0, 1, 0x8000, []], [message.rcode, message.answers.size, message.edns.flags, message.edns.options]
    end
  end

  def test_a_cookie_is_bound_to_the_client
    serve("127.0.0.1:0", "udp://[::1]:0", rules: zones) do |server|
      first = ask(server, "web.example.org", edns: edns(options: [[10, "12345678"]])).edns[10]
      assert_equal ["12345678", 24], [first.byteslice(0, 8), first.bytesize]
      again = ask(server, "web.example.org", edns: edns(options: [[10, first]])).edns[10]
      assert_equal 24, again.bytesize
      [7, 9, 15, 41].each do |length|
        assert_equal 1, ask(server, "web.example.org", edns: edns(options: [[10, "x" * length]])).rcode, length
      end
    end
  end

  def test_a_cookie_alone_can_be_asked_for
    serve(rules: zones) do |server|
      query = Message.new(3, edns: edns(options: [[10, "12345678"]]))
      message = Message.parse(exchange(server, query.encode))
      assert_equal [0, 24, []], [message.rcode, message.edns[10].bytesize, message.questions]
    end
  end

  def test_other_classes_and_transfers_are_refused
    serve(rules: zones) do |server|
      query = Message.query("version.bind", "TXT", 3)
      assert_equal 5, Message.parse(exchange(server, query.encode)).rcode
      %w[AXFR IXFR TSIG].each { |type| assert_equal 5, ask(server, "example.org", type).rcode }
      assert_equal 1, ask(server, "example.org", "OPT").rcode
    end
  end

  # --- limits ---

  def test_responses_to_one_network_are_limited_but_not_with_a_cookie
    serve(rules: zones, rate_limit: 5) do |server|
      cookie = ask(server, "web.example.org", edns: edns(options: [[10, "12345678"]])).edns[10]
      queries = Array.new(40) { |id| Message.query("web.example.org", "A", id: id, edns: nil).encode }
      UDPSocket.open do |socket|
        socket.connect("127.0.0.1", server.port)
        queries.each { |query| socket.send(query, 0) }
        eventually(what: "the last query") { server.stats[:queries] >= 41 }
        received = []
        received << Message.parse(socket.recv(512)) while socket.wait_readable(0.05)
        assert_operator received.size, :<, 40
        assert(received.any?(&:truncated?))
        assert(received.select(&:truncated?).all? { |message| message.answers.empty? })
      end
      assert_operator server.stats[:limited], :>, 20
      20.times { assert_equal 1, ask(server, "web.example.org", edns: edns(options: [[10, cookie]])).answers.size }
    end
  end

  def test_rules_that_wait_do_so_at_once_up_to_the_limit
    gate = Thread::Queue.new
    serve(rules: proc { match(/wait/) { |t| gate.pop && t.respond!("192.0.2.1") }; otherwise { |t| t.respond!("192.0.2.2") } },
      waiting_limit: 100) do |server|
      UDPSocket.open do |socket|
        socket.connect("127.0.0.1", server.port)
        110.times { |id| socket.send(Message.query("wait#{id}", "A", id: id).encode, 0) }
        eventually(what: "the waiting rules") { server.stats.values_at(:waiting, :overload) == [100, 10] }
        100.times { gate.push(true) }
        ids = Array.new(100) { (socket.wait_readable(10) or flunk) && socket.recv(512).unpack1("n") }
        assert_equal (0...100).to_a, ids.sort
        eventually(what: "the end of the rules") { server.stats[:waiting].zero? }
        assert_equal "192.0.2.2", ask(server, "other").answers[0].resource.address.to_s
      end
    end
  end

  # --- addresses ---

  def test_a_response_leaves_from_the_address_that_was_asked
    serve("udp://0.0.0.0:0", rules: zones) do |server|
      %w[127.0.0.1 127.0.0.2 127.9.9.9].each { |address| assert_equal 1, ask(server, "web.example.org", to: address).answers.size, address }
    end
  end

  def test_ipv6_too
    serve("udp://[::]:0", rules: zones { otherwise { |t| t.respond!(t.remote_address.ip_address, resource_class: IN::AAAA) } }) do |server|
      assert_equal 1, ask(server, "web.example.org", to: "::1").answers.size
      assert_equal "::1", ask(server, "x", to: "::1").answers[0].resource.address.to_s.downcase.sub(/\A(0:)+/, "::")
    end
  rescue Errno::EADDRNOTAVAIL, Errno::EAFNOSUPPORT
    skip "no IPv6 here"
  end

  # --- reloading ---

  def test_a_reload_takes_a_zone_that_loads_and_keeps_the_old_one_otherwise
    path = zone_file
    serve(rules: proc { zone "example.org", path }) do |server|
      File.write(path, GyreTest::DNSServing::ZONE.sub("192.0.2.80", "192.0.2.81"))
      server.reload
      assert_equal "192.0.2.81", ask(server, "web.example.org").answers[0].resource.address.to_s
      File.write(path, "#{GyreTest::DNSServing::ZONE}broken A x\n")
      assert_match(/:\d+: .*x/, assert_raises(Gyre::DNS::ZoneError) { server.reload }.message)
      assert_equal "192.0.2.81", ask(server, "web.example.org").answers[0].resource.address.to_s
    end
  end

  def test_questions_are_answered_while_a_large_zone_is_read_again
    path = zone_file
    serve(rules: proc { zone "example.org", path }) do |server|
      many = (0...15_000).map { |i| "host 60 A 10.#{i >> 16}.#{i >> 8 & 255}.#{i & 255}\n" } # at one name
      File.write(path, GyreTest::DNSServing::ZONE + many.join)
      reload = Thread.new { server.reload }
      answered = 0
      answered += ask(server, "web.example.org").answers.size while reload.alive?
      reload.value
      assert_operator answered, :>, 5
      assert_predicate ask(server, "host.example.org"), :truncated?
    end
  end

  def test_a_drain_answers_what_has_come_ends_connections_and_leaves_the_rest_in_the_sockets
    Dir.mktmpdir do |folder|
      cert, key = GyreTest::Certificates.new(folder).issue("server", alt: "IP:127.0.0.1")
      contexts = { "127.0.0.1:0" => nil, "tls://127.0.0.1:0?cert=#{cert}&key=#{key}" => Gyre::TLS.client(verify: false) }
      rules = proc { match("slow.test") { |t| sleep(0.2) && t.respond!("192.0.2.7") } }
      contexts.each do |address, tls|
        Gyre.run do |task|
          server = Gyre::DNS::Server.new(address, &rules)
          running = task.async { server.run }
          by_udp = task.async { ask(server, "slow.test") } unless tls
          by_tcp = task.async { ask_over(server, tls, "slow.test") }
          idle = Gyre.connect("tcp://127.0.0.1:#{server.port}", tls: tls)
          task.sleep(0.02) until server.stats[:waiting] == (tls ? 1 : 2)
          server.drain(10)
          assert_equal [0, 0], server.stats.values_at(:waiting, :connections)
          answers = [by_udp, by_tcp].compact.map(&:wait)
          assert_equal ["192.0.2.7"], answers.map { |answer| answer.answers.first.resource.address.to_s }.uniq
          assert_nil(tls ? (idle.read(1) rescue nil) : idle.read(1))
          later = [(task.async { ask(server, "slow.test") } unless tls), task.async { ask_over(server, tls, "slow.test") }].compact
          task.sleep(0.1)
          assert(later.none?(&:finished?) && server.stats[:waiting].zero?)
          server.resume
          assert_equal [1], later.map { |each| each.wait.answers.size }.uniq
          server.stop
          running.wait
        ensure
          idle&.abandon
        end
      end
    end
  end

  def test_a_drain_ends_in_time
    Gyre.run do |task|
      server = Gyre::DNS::Server.new("127.0.0.1:0") { match("slow.test") { |t| sleep(2) && t.respond!("192.0.2.7") } }
      running = task.async { server.run }
      asking = task.async { ask(server, "slow.test") }
      task.sleep(0.01) until server.stats[:waiting] == 1
      assert_operator elapsed { server.drain(0.05) }, :<, 1.8
      server.stop
      running.wait
    ensure
      asking&.stop
    end
  end

  def test_each_response_is_logged
    log = StringIO.new
    serve(rules: zones { otherwise { |t| t.fail!(:NXDomain) } }, log: log) do |server|
      ask(server, "web.example.org")
      ask(server, "else")
    end
    log = log.string.lines
    assert_match(/ 127\.0\.0\.1 web\.example\.org IN A NoError 1\/0\/0 \d+$/, log[0])
    assert_match(/ else IN A NXDomain 0\/0\/0 /, log[1])
  end

  def test_wrong_addresses_get_an_error
    ["unix:///x", "127.0.0.1:99999", "nonsense://x"].each { |address| assert_raises(ArgumentError, address) { Gyre::DNS::Server.new(address) } }
    serve { |server| assert_raises(Errno::EADDRINUSE) { Gyre::DNS::Server.new("127.0.0.1:#{server.port}") } }
  end

  private

  def ask_over(server, tls, name)
    Gyre.connect("tcp://127.0.0.1:#{server.port}", tls: tls) do |stream|
      stream.write(framed(Gyre::DNS::Message.query(name, "A").encode))
      Gyre::DNS::Message.parse(stream.read_exactly(stream.read_exactly(2).unpack1("n")))
    end
  end

  def elapsed
    began_s = monotonic_s
    yield
    monotonic_s - began_s
  end
end
