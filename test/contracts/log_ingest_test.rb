# frozen_string_literal: true

# What the log's ingest does with messages that have been cut: routes, counts, sinks, sessions.
require "test_helper"
require "objspace"
require_relative "../log/ingests"

class LogIngestContractTest < Minitest::Test
  include LogIngests::Tools

  def test_a_message_becomes_a_line_with_the_time_of_arrival
    sink = sink()
    assert_nil feed(frame("hello"))
    assert_equal 1, sink.lines
    assert_equal 35, sink.bytesize
    assert_equal ["2026/11/21 19:20:00|web|info|hello\n", {}], sink.take
    assert_nil sink.take
    assert_equal [0, 0], [sink.lines, sink.bytesize]
  end

  # Else each read would need new memory, of which old stacks keep some.
  def test_the_buffer_of_the_reader_stays_its_own
    buffer = String.new(capacity: 262_144) << frame("a message that has more bytes than a slot of the heap") << frame("a part")[0..-2]
    sink()
    %i[analogger json].each do |kind|
      ingest.decoder(kind).feed(buffer, LogIngests::TIME_NS)
      assert_operator ObjectSpace.memsize_of(buffer), :>, 262_144, kind
    end
  end

  def test_a_route_of_its_own_comes_before_the_one_for_all
    web, rest = ingest.sink, ingest.sink
    ingest.route("web", nil, [web])
    ingest.route(nil, nil, [rest])
    feed(frame("1") + frame("2", service: "mail") + frame("3", service: ""))
    assert_equal ["web|info|1"], lines(web)
    assert_equal ["mail|info|2", "|info|3"], lines(rest)
  end

  def test_a_later_route_of_a_service_replaces_the_earlier
    first, second = ingest.sink, ingest.sink
    ingest.route(nil, nil, [first])
    feed(frame("1"))
    ingest.route(nil, nil, [second])
    feed(frame("2"))
    assert_equal [["web|info|1"], ["web|info|2"]], [lines(first), lines(second)]
  end

  def test_routes_of_a_service_with_other_severities_are_added
    all, bad, rest = ingest.sink, ingest.sink, ingest.sink
    ingest.route(nil, nil, [rest])
    { [nil, all] => "web", [%w[error warn], bad] => "web", [%w[error], all] => "web", [%w[error], bad] => "db" }.each do |(severities, sink), service|
      ingest.route(service, severities, [sink])
    end
    feed(frame("1") + frame("2", severity: "error") + frame("3", service: "db"))
    feed(frame("4", service: "db", severity: "error") + frame("5", service: "x"))
    assert_equal [%w[web|info|1 web|error|2], %w[web|error|2 db|error|4], %w[x|info|5]], [all, bad, rest].map { |sink| lines(sink) }
    assert_equal 1, ingest.filtered
  end

  def test_severities_that_no_route_takes_are_counted
    some = ingest.sink
    ingest.route("web", %w[info warn], [some])
    feed(frame("1") + frame("2", severity: "debug") + frame("3", service: "other") + frame("4", severity: "warn"))
    assert_equal ["web|info|1", "web|warn|4"], lines(some)
    assert_equal [4, 2], [ingest.messages, ingest.filtered]
  end

  def test_several_sinks_get_the_same_message
    sinks = [ingest.sink, ingest.sink(format: :json)]
    ingest.route(nil, nil, sinks)
    feed(frame("hello"))
    assert_equal [35, 96], sinks.map(&:bytesize)
    assert_equal 131, ingest.bytesize
    sinks.each(&:take)
    assert_equal 0, ingest.bytesize
  end

  def test_services_are_counted_up_to_their_limit
    @ingest = Gyre::Log::Ingest.new(services_limit: 2)
    feed(%w[a b c a d].map { |service| frame("", service: service) }.join)
    assert_equal({ "a" => 2, "b" => 1, "(others)" => 2 }, ingest.services)
  end

  def test_a_service_with_a_very_long_name_is_counted_with_the_others
    feed(frame("", service: "s" * 256) + frame("", service: "s" * 255))
    assert_equal({ "(others)" => 1, "s" * 255 => 1 }, ingest.services)
  end

  def test_the_servers_own_messages_take_the_same_way
    sink = sink()
    ingest.log("gyre", "warn", "a\nb", LogIngests::TIME_NS)
    assert_equal ["gyre|warn|a\\nb"], lines(sink)
    assert_equal({ "gyre" => 1 }, ingest.services)
  end

  def test_a_tap_gets_what_is_routed
    sink = sink()
    ingest.route("quiet", %w[warn], [sink])
    all, web = ingest.sink, ingest.sink
    ingest.tap(all)
    ingest.tap(web, "web")
    feed(frame("1") + frame("2", service: "quiet") + frame("3", service: "quiet", severity: "warn"))
    assert_equal [["web|info|1", "quiet|warn|3"], ["web|info|1"]], [lines(all), lines(web)]
    ingest.untap(all)
    feed(frame("4"))
    assert_equal [[], ["web|info|4"]], [lines(all), lines(web)]
  end

  def test_a_full_sink_drops_lines_and_counts_them
    sink = sink(limit: 60)
    feed(frame("1") + frame("2" * 40) + frame("3"))
    assert_equal [1, 2], [sink.lines, sink.dropped]
    assert_equal ["web|info|1"], lines(sink)
    feed(frame("4"))
    assert_equal [["web|info|4"], 2], [lines(sink), sink.dropped]
  end

  # It bounds itself: a follower that does not read must not hold up the writers.
  def test_a_sink_with_a_limit_does_not_count_as_memory
    tap = ingest.sink(limit: 1000)
    ingest.tap(tap)
    sink = sink()
    feed(frame("1"))
    assert_equal [sink.bytesize, sink.bytesize], [tap.bytesize, ingest.bytesize]
    [sink, tap].each(&:take)
    assert_equal 0, ingest.bytesize
  end

  def test_what_is_incomplete_is_counted_of_its_own
    sink = sink()
    half = { analogger: frame("2")[0..-2], records: record(2)[0..-2], syslog: "<13>2", json: '{"message":"2"' }
    decoders = half.map { |kind, bytes| ingest.decoder(kind).tap { |decoder| decoder.feed(bytes, LogIngests::TIME_NS) } }
    feed(frame("1"))
    assert_equal half.values.sum(&:bytesize), ingest.incomplete
    assert_equal ingest.incomplete + sink.bytesize, ingest.bytesize
    decoders.each { |decoder| decoder.finish(LogIngests::TIME_NS) }
    assert_equal [0, sink.bytesize], [ingest.incomplete, ingest.bytesize]
  end

  def test_equal_messages_in_a_row_are_culled
    sink = sink(cull: true)
    feed([frame("a")] * 3 * "" + frame("b") + frame("b", severity: "warn") + frame("a") + frame("a"))
    assert_equal ["web|info|a", "web|info|Last message repeated 2 times", "web|info|b", "web|warn|b", "web|info|a",
                  "web|info|Last message repeated 1 times"], lines(sink)
    feed(frame("a"))
    assert_equal ["web|info|a"], lines(sink)
  end

  def test_a_culled_message_has_the_time_of_the_last
    sink = sink(cull: true)
    decoder = ingest.decoder(:analogger)
    2.times { |second| decoder.feed(frame("a"), LogIngests::TIME_NS + second * 1_000_000_000) }
    assert_equal "2026/11/21 19:20:00|web|info|a\n2026/11/21 19:20:01|web|info|Last message repeated 1 times\n", sink.take.first
  end

  def test_records_name_their_client_and_how_far_they_came
    sink = sink()
    session = ingest.session("0123456789abcdef" * 2)
    assert_equal ["0123456789abcdef" * 2, 0], [session.client_id, session.received]
    feed(record(1) + record(2), kind: :records, session: session)
    assert_equal 2, session.received
    assert_equal ["2026/11/21 19:20:00|web|info|m1\n2026/11/21 19:20:00|web|info|m2\n", { "0123456789abcdef" * 2 => 2 }], sink.take
  end

  def test_a_record_that_a_sink_has_had_is_not_given_to_it_again
    one, two = ingest.sink, ingest.sink(cull: true)
    ingest.route(nil, nil, [one, two])
    session = ingest.session("a" * 32, { one => 2, two => 1 })
    feed((1..3).map { |sequence| record(sequence) }.join, kind: :records, session: session)
    assert_equal [%w[web|info|m3], %w[web|info|m2 web|info|m3]], [lines(one), lines(two)]
    feed((2..4).map { |sequence| record(sequence) }.join, kind: :records, session: session)
    assert_equal [%w[web|info|m4], %w[web|info|m4]], [lines(one), lines(two)]
    assert_equal 4, session.received
  end

  def test_a_tap_leaves_nothing_in_a_session
    sink = sink()
    session = ingest.session("a" * 32)
    feed(record(1), kind: :records, session: session)
    before = kept(session)
    2.upto(20) do |sequence|
      ingest.tap(tap = ingest.sink)
      2.times { feed(record(sequence), kind: :records, session: session) }
      assert_equal ["web|info|m#{sequence}"], lines(tap), "once, as in the log"
      ingest.untap(tap)
    end
    assert_equal 20, lines(sink).size
    assert_equal before, kept(session)
  end

  def test_each_client_has_its_own_sequence
    sink = sink()
    %w[a b].each { |name| feed(record(5, name), kind: :records, session: ingest.session(name * 32)) }
    text, clients = sink.take
    assert_equal 2, text.lines.size
    assert_equal({ "a" * 32 => 5, "b" * 32 => 5 }, clients)
  end

  # As much as any sink has whose output has not stored it, and all of it when there is none.
  def test_a_session_has_what_is_durable
    one, two = ingest.sink, ingest.sink
    ingest.route("web", nil, [one])
    ingest.route("db", nil, [two])
    session = ingest.session("a" * 32, { one => 3 })
    assert_equal 0, session.durable
    feed(record(3) + record(4, service: "quiet"), kind: :records, session: session)
    assert_equal [4, 4], [session.received, session.durable], "one has it stored already, the other is routed nowhere"
    feed([record(5), record(6, service: "db"), record(7)].join, kind: :records, session: session)
    assert_equal 0, session.durable
    session.stored(one, 7)
    assert_equal 0, session.durable, "the other one has 6"
    session.stored(two, 6)
    assert_equal 7, session.durable
    feed([record(8), record(9)].join, kind: :records, session: session)
    session.stored(one, 8)
    session.stored(one, 5)
    assert_equal 8, session.durable
    assert_raises(TypeError) { session.stored(:sink, 9) }
  end

  def test_a_sink_is_taken_into_the_same_string_again
    sink = sink()
    into = String.new(encoding: Encoding::BINARY)
    ["x" * 3_000_000, "y", "z" * 6_000_000, "é" * 10].each do |text|
      ingest.log("web", "info", text, LogIngests::TIME_NS)
      bytes, clients = sink.take(into)
      assert_same into, bytes
      assert_equal [true, {}], [bytes == "2026/11/21 19:20:00|web|info|#{text}\n".b, clients]
      rest = into.byteslice(20..) # shares its memory
      assert_nil sink.take(into)
      assert_equal [true, true], [into.empty?, rest == "web|info|#{text}\n".b]
    end
    assert_raises(FrozenError) { sink.take("".b.freeze) }
  end

  def test_a_record_that_no_route_takes_counts_as_received
    session = ingest.session("a" * 32)
    feed(record(7), kind: :records, session: session)
    assert_equal [7, 1], [session.received, ingest.filtered]
  end

  def test_a_full_sink_takes_what_decoders_bring_and_drops_what_cannot_be_held_back
    full = ingest.sink(bound: 100)
    ingest.route(nil, nil, [full])
    feed(frame("x" * 100))
    assert_equal [true, true, false, false], [full.full?, full.blocked?, full.room?, ingest.crowded?]
    feed(frame("behind"))
    assert_equal [true, true, false, false], [ingest.crowded?, full.hit?, ingest.crowded?, full.hit?]
    ingest.log("web", "info", "own", LogIngests::TIME_NS)
    ingest.datagram(:syslog, "<14>web: gram", LogIngests::TIME_NS)
    ingest.decoder(:json).feed(%({"service":"web","message":"json"}\n), LogIngests::TIME_NS)
    assert_equal [2, 3, true], [full.dropped, full.lines, ingest.crowded?]
    full.take
    assert_equal [true, 0], [full.full?, full.bytesize], "what is taken and not written counts"
    full.written
    assert_equal [false, true], [full.full?, full.room?]
  end

  def test_a_sink_that_drops_holds_up_no_client
    full, other = ingest.sink(bound: 100, drops: true), ingest.sink
    ingest.route(nil, nil, [full, other])
    session = ingest.session("a" * 32)
    feed((1..10).map { |number| record(number, "x" * 50) }.join, kind: :records, session: session)
    assert_equal [2, 8, 10, false, false], [full.lines, full.dropped, other.lines, full.blocked?, ingest.crowded?]
    assert_equal [0, {}], [session.durable, full.take.last]
    session.stored(other, 10)
    assert_equal 10, session.durable
  end

  def test_a_record_for_which_there_is_no_room_at_all_is_refused_and_given_to_no_sink
    full, other = ingest.sink(bound: 100), ingest.sink
    ingest.route(nil, nil, [other, full])
    session = ingest.session("a" * 32)
    feed(record(1, "x" * 1_000_000), kind: :records, session: session)
    feed((2..17).map { |number| record(number, "x" * 1_000_000) }.join, kind: :records, session: session)
    decoder = ingest.decoder(:records, session: session)
    before = [other.lines, session.received, ingest.messages]
    assert_match(/send it again/, decoder.feed(record(18) + record(19), LogIngests::TIME_NS))
    assert_equal before, [other.lines, session.received, ingest.messages]
    assert_nil feed(record(17), kind: :records, session: session), "it has that"
    feed(frame("dropped"))
    assert_equal 1, full.dropped
    full.take
    full.written
    assert_nil feed(record(18), kind: :records, session: session)
    assert_equal 18, session.received
  end

  def test_of_a_client_of_which_it_is_not_known_what_a_sink_has_it_gets_nothing
    known, unknown = ingest.sink, ingest.sink
    ingest.route("web", nil, [known])
    ingest.route(nil, nil, [unknown])
    session = ingest.session("a" * 32, { known => 2, unknown => nil })
    assert_nil feed(record(2) + record(3), kind: :records, session: session)
    refute_predicate session, :refused?
    assert_match(/send it again/, feed(record(4, service: "other") + record(5), kind: :records, session: session))
    assert_equal [true, 3, 0], [session.refused?, session.received, unknown.lines]
    session.stored(known, 3)
    assert_equal 3, session.durable
  end

  def test_wrong_arguments_are_refused
    assert_raises(ArgumentError) { ingest.sink(format: :xml) }
    assert_raises(ArgumentError) { ingest.decoder(:nothing) }
    assert_raises(ArgumentError) { ingest.session("short") }
    assert_raises(TypeError) { ingest.route(nil, nil, [1]) }
    assert_raises(TypeError) { ingest.tap("sink") }
    foreign = Gyre::Log::Ingest.new.sink
    assert_raises(ArgumentError) { ingest.route(nil, nil, [foreign]) }
    assert_raises(ArgumentError) { ingest.tap(foreign) }
  end

  private

  # What a session holds.
  def kept(session)
    ObjectSpace.memsize_of(session)
  end
end
