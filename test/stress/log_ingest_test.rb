# frozen_string_literal: true

# The native ingest under the collector at its most eager, under compaction, and when its parts are
# let go in any order.
require "test_helper"
require_relative "../log/ingests"

class LogIngestStressTest < Minitest::Test
  include LogIngests::Tools

  def test_it_works_while_the_collector_runs_at_each_allocation
    GC.stress = 1 # without major collections, which would take seconds
    use_everything
  ensure
    GC.stress = GyreTest::LifecycleChecks::STRESS
  end

  def test_it_works_while_everything_is_moved
    sink = sink()
    session = ingest.session("a" * 32)
    decoder = ingest.decoder(:records, session: session)
    bytes = record(1) + record(2)
    bytes.each_char.each_slice(20) do |slice|
      decoder.feed(slice.join, LogIngests::TIME_NS)
      move_objects
    end
    text, clients = sink.take
    assert_equal [2, { "a" * 32 => 2 }], [text.lines.size, clients]
  end

  # What is still held goes on working.
  def test_its_parts_may_be_let_go_in_any_order
    20.times do |seed|
      parts = parts()
      parts[:decoder].feed(record(1) + "\0\0", LogIngests::TIME_NS)
      parts.keys.shuffle(random: Random.new(seed)).each do |name|
        parts.delete(name)
        GC.start
        parts[:decoder]&.feed("", LogIngests::TIME_NS)
        parts[:sink]&.take
        parts[:session]&.received
        parts[:ingest]&.log("a", "b", "c", LogIngests::TIME_NS)
      end
    end
  end

  def test_what_is_freed_is_given_back
    skip "the sanitizers keep what was freed" if ENV["LD_PRELOAD"].to_s.include?("asan")
    before = resident_bytes
    20.times do
      5.times { keep_two_megabytes }
      GC.start
    end
    assert_operator resident_bytes - before, :<, 100 << 20
  end

  private

  def use_everything
    sink = ingest.sink(cull: true)
    ingest.route("web", %w[info warn], [sink])
    ingest.route(nil, nil, [sink, ingest.sink(format: :json), ingest.sink(format: :redis, key: "k")])
    ingest.tap(sink, "web")
    feed(frame("a") + frame("a") + frame("b", service: "x"))
    feed(record(1), kind: :records, session: ingest.session("b" * 32, { sink => 0 }))
    assert_equal "malformed frame", feed("00110011a::")
    ingest.decoder(:json).feed("{}\n", LogIngests::TIME_NS)
    ingest.datagram(:syslog, "<14>1 - h a 1 i - x", LogIngests::TIME_NS)
    ingest.untap(sink)
    assert_equal({ "web" => 3, "x" => 1, "json" => 1, "a" => 1 }, ingest.services)
    text, clients = sink.take
    assert_equal 6, text.lines.size
    assert_equal({ "b" * 32 => 1 }, clients)
  end

  def parts
    ingest = Gyre::Log::Ingest.new
    sink = ingest.sink
    ingest.route(nil, nil, [sink, ingest.sink])
    ingest.tap(ingest.sink)
    session = ingest.session("c" * 32, { sink => 0 })
    { ingest: ingest, sink: sink, session: session, decoder: ingest.decoder(:records, session: session) }
  end

  def keep_two_megabytes
    ingest = Gyre::Log::Ingest.new
    ingest.route(nil, nil, [ingest.sink])
    ingest.log("a", "b", "x" * (1 << 21), LogIngests::TIME_NS)
    ingest.decoder(:records).feed("\0\x0f\0\0".b + "x" * 100_000, LogIngests::TIME_NS)
  end

  def resident_bytes
    skip "there is no /proc here" unless File.exist?("/proc/self/statm")
    File.read("/proc/self/statm").split[1].to_i * 4096
  end
end
