# frozen_string_literal: true

# How name servers are asked (Gyre::DNS::Upstream, Exchange, Query), with servers that answer
# wrongly, late, or never; in tasks and in plain threads.
require "test_helper"
require "gyre"
require "gyre/dns/resolver"
require "support/name_servers"

module UpstreamCases
  include GyreTest::NameServers

  def teardown
    @upstreams&.each(&:close)
    close_scripted
  end

  def test_an_answer_comes_from_a_new_port_with_a_new_id_and_case_each_time
    server = scripted { |bytes| reply_to(bytes, "long.name.example.org 60 A 192.0.2.1") }
    upstream = upstream(server)
    12.times { assert_equal "192.0.2.1", answer(upstream, "long.name.example.org") }
    assert_operator server.ports.uniq.size, :>, 6
    assert_operator server.queries.map { |bytes| bytes.byteslice(0, 2) }.uniq.size, :>, 6
    names = server.queries.map { |bytes| bytes.byteslice(12, 23) }
    assert_operator names.uniq.size, :>, 6
    assert_equal 1, names.map(&:downcase).uniq.size
  end

  FORGERIES.each do |what, forge|
    define_method("test_a_packet_with_#{what.tr(" ", "_")}_is_ignored") do
      server = scripted do |bytes|
        [forge.call(reply_to(bytes, "example.org 60 A 192.0.2.66")), reply_to(bytes, "example.org 60 A 192.0.2.1")]
      end
      upstream = upstream(server)
      assert_equal "192.0.2.1", answer(upstream, "example.org")
    end
  end

  def test_a_packet_of_another_address_does_not_count
    server = scripted do |bytes, _, port|
      server.forge(reply_to(bytes, "example.org 60 A 192.0.2.66"), port)
      reply_to(bytes, "example.org 60 A 192.0.2.1")
    end
    assert_equal "192.0.2.1", answer(upstream(server), "example.org")
  end

  def test_a_name_in_another_case_is_asked_over_tcp
    server = scripted do |bytes, over|
      next reply_to(bytes, "example.org 60 A 192.0.2.1") if over == :tcp

      reply_to(bytes.b.tap { |query| query[12, 13] = query.byteslice(12, 13).swapcase }, "example.org 60 A 192.0.2.66")
    end
    assert_equal "192.0.2.1", answer(upstream(server), "example.org")
    assert_equal 1, server.connections
  end

  def test_a_truncated_answer_is_asked_over_tcp
    server = scripted do |bytes, over|
      over == :udp ? reply_to(bytes, flags: Gyre::DNS::Message::TC) : reply_to(bytes, *(1..200).map { |index| "example.org 60 A 192.0.2.#{index}" })
    end
    query = exchange(upstream(server), "example.org")
    assert_equal 200, Gyre::DNS::Message.parse(query.reply).answers.size
  end

  def test_a_lost_packet_is_sent_again
    server = scripted { |bytes| reply_to(bytes, "example.org 60 A 192.0.2.1") if server.queries.size > 1 }
    assert_equal "192.0.2.1", answer(upstream(server, timeout_s: 0.1, attempts: 50), "example.org")
  end

  def test_silence_leads_to_the_next_server_which_stays_the_first_for_a_while
    silent = scripted { nil }
    good = scripted { |bytes| reply_to(bytes, "example.org 60 A 192.0.2.1") }
    upstream = upstream(silent, good, timeout_s: 0.1, attempts: 50, stay_s: 600)
    assert_equal "192.0.2.1", answer(upstream, "example.org")
    silent.forge("last", silent.port)
    eventually { silent.queries.last == "last" } # and those before it
    before = silent.queries.size
    upstream.instance_variable_set(:@timeout_s, 60)
    9.times { assert_equal "192.0.2.1", answer(upstream, "example.org") }
    assert_equal before, silent.queries.size
  end

  def test_the_first_server_is_asked_first_again_after_a_failure_and_after_a_while_of_silence
    broken = true
    first = scripted { |bytes| broken ? reply_to(bytes, rcode: 2) : reply_to(bytes, "example.org 60 A 192.0.2.1") }
    second = scripted { |bytes| reply_to(bytes, "example.org 60 A 192.0.2.2") }
    upstream = upstream(first, second)
    assert_equal "192.0.2.2", answer(upstream, "example.org")
    broken = false
    assert_equal "192.0.2.1", answer(upstream, "example.org")
    lost = scripted { |bytes| reply_to(bytes, "example.org 60 A 192.0.2.1") if lost.queries.size > 2 }
    upstream = upstream(lost, second, timeout_s: 0.3, attempts: 50, stay_s: 0)
    assert_equal %w[192.0.2.2 192.0.2.1], Array.new(2) { answer(upstream, "example.org") }
  end

  def test_a_lower_case_answer_counts_from_a_server_without_tcp_and_is_expected_afterwards
    server = scripted { |bytes| reply_to(bytes.b.tap { |query| query[12, 13] = query.byteslice(12, 13).downcase }, "example.org 60 A 192.0.2.1") }
    server.refuse_tcp
    upstream = upstream(server)
    2.times { assert_equal "192.0.2.1", answer(upstream, "Example.org") }
    assert_equal 3, server.queries.size
    assert_equal "\x07Example\x03org".b, server.queries.last.byteslice(12, 12)
    failing = scripted { |bytes| reply_to(bytes, rcode: 5) }
    assert_equal "192.0.2.1", answer(upstream(failing, server, attempts: 1), "Example.org")
  end

  def test_a_server_behind_a_router_that_drops_edns_is_asked_without_after_half_the_time
    server = scripted { |bytes| reply_to(bytes, "example.org 60 A 192.0.2.1") unless Gyre::DNS::Message.parse(bytes).edns }
    upstream = upstream(server, timeout_s: 0.2, attempts: 50)
    assert_equal "192.0.2.1", answer(upstream, "example.org")
    before = server.queries.size
    assert_equal "192.0.2.1", answer(upstream, "example.org")
    assert_equal before + 1, server.queries.size
  end

  def test_one_question_of_a_port_is_enough_for_a_router_that_passes_no_second_one_on
    seen = []
    server = scripted do |bytes, _, port|
      next if seen.include?(port)

      seen << port
      reply_to(bytes, *("example.org 60 A 192.0.2.1" if type_of(bytes) == 1))
    end
    queries = [1, 28].map { |type| Gyre::DNS::Query.ask("example.org", type) }
    in_its_way { upstream(server, timeout_s: 0.2, attempts: 50).exchange(queries) }
    assert queries.all?(&:answered?)
  end

  def test_bytes_behind_a_reply_are_ignored
    assert_equal "192.0.2.1", answer(upstream(scripted { |bytes| "#{reply_to(bytes, "example.org 60 A 192.0.2.1")}\0\0" }), "example.org")
  end

  def test_a_server_in_the_zone_of_a_missing_interface_is_one_that_does_not_answer
    good = scripted { |bytes| reply_to(bytes, "example.org 60 A 192.0.2.1") }
    assert_equal "192.0.2.1", answer(track(Gyre::DNS::Upstream.new("fe80::1%nosuch0", good.address, timeout_s: 60)), "example.org")
  end

  def test_a_close_leaves_the_connections_alone_that_others_open_meanwhile
    first, second = %w[tcp://192.0.2.1 tcp://192.0.2.2].map { |address| Gyre::DNS::ServerAddress.parse(address) }
    upstream = track(Gyre::DNS::Upstream.new("192.0.2.1"))
    opened = nil
    upstream.stream(first).define_singleton_method(:close) { opened = upstream.stream(second) }
    upstream.close
    assert_same opened, upstream.stream(second)
  end

  def test_a_closed_port_leads_to_the_next_server_at_once
    good = scripted { |bytes| reply_to(bytes, "example.org 60 A 192.0.2.1") }
    upstream = track(Gyre::DNS::Upstream.new("127.0.0.1:#{free_port}", good.address, timeout_s: 60))
    assert_equal "192.0.2.1", answer(upstream, "example.org")
  end

  def test_a_failing_server_leads_to_the_next_one_at_once
    [2, 4, 5].each do |rcode|
      failing = scripted { |bytes| reply_to(bytes, rcode: rcode) }
      good = scripted { |bytes| reply_to(bytes, "example.org 60 A 192.0.2.1") }
      assert_equal "192.0.2.1", answer(upstream(failing, good, timeout_s: 60), "example.org")
    end
  end

  def test_the_failure_is_the_reply_if_all_servers_fail
    failing = scripted { |bytes| reply_to(bytes, rcode: 2) }
    query = exchange(upstream(failing, timeout_s: 60), "example.org")
    refute_predicate query, :answered?
    assert_equal 2, Gyre::DNS::Message.parse(query.reply).rcode
  end

  def test_a_server_without_edns_is_asked_without
    server = scripted do |bytes|
      Gyre::DNS::Message.parse(bytes).edns ? bytes.byteslice(0, 2) + "\x80\x01\0\0\0\0\0\0\0\0".b : reply_to(bytes, "example.org 60 A 192.0.2.1")
    end
    assert_equal "192.0.2.1", answer(upstream(server, timeout_s: 60), "example.org")
  end

  def test_a_server_that_repeats_what_makes_it_be_asked_again_is_asked_again_once
    formerr = ->(bytes) { bytes.byteslice(0, 2) + "\x80\x01\0\0\0\0\0\0\0\0".b }
    swapped = ->(bytes) { reply_to(bytes.b.tap { |query| query[12, 13] = query.byteslice(12, 13).swapcase }, "example.org 60 A 192.0.2.66") }
    truncated = ->(bytes) { reply_to(bytes, flags: Gyre::DNS::Message::TC) }
    [formerr, swapped, truncated].each do |change|
      first = nil
      server = scripted { |bytes, over| [change.call(first ||= bytes)] * 50 unless over == :tcp && server.close_connections }
      # The second server is silent, too: late packets of the first one are read meanwhile.
      in_its_way { upstream(server, scripted { nil }, timeout_s: 0.1, attempts: 1).exchange([Gyre::DNS::Query.ask("example.org", 1)]) }
      assert_operator server.queries.size, :<=, 4 # at first, after half the time, without EDNS or random case, over TCP
    end
  end

  def test_a_server_that_closes_connections_with_edns_is_asked_without_and_remembered
    server = scripted { |bytes| bytes.byteslice(10, 2) == "\0\0" ? reply_to(bytes, "example.org 60 A 192.0.2.1") : (server.close_connections && nil) }
    upstream = track(Gyre::DNS::Upstream.new("tcp://#{server.address}", timeout_s: 60, attempts: 1))
    2.times { assert_equal "192.0.2.1", answer(upstream, "example.org") }
    assert_equal 3, server.queries.size
  end

  def test_a_server_that_answers_each_connection_as_if_it_knew_no_edns_has_failed
    first = nil
    server = scripted { |bytes| (first ||= bytes).byteslice(0, 2) + "\x80\x01\0\0\0\0\0\0\0\0".b }
    query = Gyre::DNS::Query.ask("example.org", 1)
    in_its_way { track(Gyre::DNS::Upstream.new("tcp://#{server.address}", timeout_s: 60, attempts: 1)).exchange([query]) }
    refute_predicate query, :answered?
    assert_equal 2, server.queries.size
  end

  def test_raced_servers_are_asked_at_once_and_the_first_answer_counts
    silent = scripted { nil }
    good = scripted { |bytes| reply_to(bytes, "example.org 60 A 192.0.2.1") }
    upstream = upstream(silent, good, timeout_s: 60, race: true)
    assert_equal "192.0.2.1", answer(upstream, "example.org")
    eventually { silent.queries.size == 1 }
  end

  def test_a_late_answer_of_the_first_server_is_taken_while_the_second_is_asked
    asked = Thread::Queue.new
    first = scripted { |bytes| asked.pop && reply_to(bytes, "example.org 60 A 192.0.2.1") }
    second = scripted { asked.push(true) && nil }
    query = Gyre::DNS::Query.ask("example.org", 1)
    upstream = upstream(first, second)
    exchange = Gyre::DNS::Exchange.new(upstream, [query])
    in_its_way { upstream.servers.zip([0.05, 60]) { |server, timeout_s| exchange.ask([server], timeout_s) } }
    assert_equal upstream.servers.first, query.server
  ensure
    exchange&.close
  end

  def test_no_server_at_all_leaves_reasons
    query = exchange(track(Gyre::DNS::Upstream.new("127.0.0.1:#{free_port}", attempts: 1)), "example.org")
    assert_nil query.reply
    assert_match(/\Audp:.* Connection refused\z/, query.failure)
    silent = exchange(upstream(scripted { nil }, timeout_s: 0.05, attempts: 1), "example.org")
    assert_equal "no response in time", silent.failure
  end

  def test_a_query_is_passed_on_with_its_own_id_and_case_in_the_reply
    server = scripted { |bytes| reply_to(bytes, "example.org 60 A 192.0.2.1") }
    upstream = upstream(server)
    given = Gyre::DNS::Message.query("eXaMple.oRg", "A", id: 4711, edns: nil).encode
    in_its_way do
      5.times do
        reply = Gyre::DNS::Message.parse(upstream.forward(given))
        assert_equal [4711, "eXaMple.oRg", 1], [reply.id, reply.questions.first.name, reply.answers.size]
      end
    end
    assert_equal given.bytesize, server.queries.first.bytesize
    refute_equal [given], server.queries.uniq
  end

  def test_a_forked_child_has_sockets_of_its_own
    server = scripted { |bytes| reply_to(bytes, "example.org 60 A 192.0.2.1") }
    upstream = upstream(server)
    query = Gyre::DNS::Message.query("example.org", "A").encode
    in_its_way { upstream.forward(query) }
    _, status = Process.wait2(fork { exit!(upstream.forward(query) ? 0 : 1) })
    assert_predicate status, :success?
    assert_equal 2, server.ports.uniq.size
  end

  def test_an_invalid_query_is_not_passed_on
    upstream = upstream(scripted { flunk })
    ["", "x" * 11, "\0" * 12, "\0\0\x80\0\0\1\0\0\0\0\0\0\0\0\1\0\1".b, "\0\0\0\0\0\1\0\0\0\0\0\0\x40".b,
     "\0\0\0\0\0\1\0\0\0\0\0\0#{"\x3f#{"a" * 63}" * 5}\0\0\1\0\1".b].each { |bytes| assert_nil in_its_way { upstream.forward(bytes) } }
  end

  def test_a_failure_is_passed_on_and_silence_is_nil
    failing = upstream(scripted { |bytes| reply_to(bytes, rcode: 5) })
    query = Gyre::DNS::Message.query("example.org", "A").encode
    assert_equal 5, in_its_way { Gyre::DNS::Message.parse(failing.forward(query)).rcode }
    silent = upstream(scripted { nil }, timeout_s: 0.05, attempts: 1)
    assert_nil(in_its_way { silent.forward(query) })
  end

  private

  def upstream(*servers, **options) = track(Gyre::DNS::Upstream.new(*servers.map(&:address), timeout_s: 60, **options))

  def track(upstream)
    (@upstreams ||= []) << upstream
    upstream
  end

  def exchange(upstream, name, type = 1)
    query = Gyre::DNS::Query.ask(name, type)
    in_its_way { upstream.exchange([query]) }
    query
  end

  # The first address.
  def answer(upstream, name)
    query = exchange(upstream, name)
    Gyre::DNS::Message.parse(query.reply || flunk(query.failure)).answers.first.resource.address.to_s
  end
end

class DNSUpstreamInTasksTest < Minitest::Test
  include UpstreamCases

  private

  def in_its_way(&block) = Gyre.run(&block)
end

class DNSUpstreamInThreadsTest < Minitest::Test
  include UpstreamCases

  private

  def in_its_way = yield
end

class DNSServerAddressTest < Minitest::Test
  # Text => its parts.
  CASES = {
    "192.0.2.1" => ["udp", "192.0.2.1", 53, nil, nil], "2001:db8::1" => ["udp", "2001:db8::1", 53, nil, nil],
    "192.0.2.1:5300" => ["udp", "192.0.2.1", 5300, nil, nil], "udp://[2001:db8::1]:5300" => ["udp", "2001:db8::1", 5300, nil, nil],
    "tcp://192.0.2.1" => ["tcp", "192.0.2.1", 53, nil, nil], "tls://192.0.2.1#dns.example" => ["tls", "192.0.2.1", 853, "dns.example", nil],
    "tls://dns.example:8853" => ["tls", "dns.example", 8853, nil, nil],
    "https://dns.example" => ["https", "dns.example", 443, nil, "/dns-query"], "https://[::1]/q" => ["https", "::1", 443, nil, "/q"]
  }.freeze

  def test_addresses_of_name_servers
    CASES.each { |text, parts| assert_equal parts, Gyre::DNS::ServerAddress.parse(text).to_a, text }
    CASES.each_key do |text|
      address = Gyre::DNS::ServerAddress.parse(text)
      assert_equal address, Gyre::DNS::ServerAddress.parse(address.to_s)
    end
  end

  def test_the_zone_of_a_link_local_address_is_kept_in_tasks
    name, index = Socket.getifaddrs.first.then { |each| [each.name, each.ifindex] }
    scope = -> { Gyre::DNS::ServerAddress.parse("fe80::53%#{name}").addrinfo.to_sockaddr[24, 4].unpack1("L") }
    assert_equal [index, index], [scope.call, Gyre.run { scope.call }]
  end

  def test_other_text_is_not_a_name_server
    ["", "dns.example", "udp://dns.example", "ftp://192.0.2.1", "192.0.2.1:0", "192.0.2.1:65536", "tls://192.0.2.1/path", "[::1"].each do |text|
      assert_raises(ArgumentError, text) { Gyre::DNS::ServerAddress.parse(text) }
    end
  end
end
