# frozen_string_literal: true

# Gyre::Log::Committer: when the sinks are taken, in which order outputs are written, synced and sessions acknowledged.

require "test_helper"
require "support/engines"
require "gyre"
require "gyre/log/committer"

GyreTest::Engines.test_case("LogCommitterTest") do
  # What an ingest's sink offers to the committer.
  sink_class = Class.new do
    def initialize
      @data = +""
      @clients = {}
    end

    def add(text, clients = {})
      @data << text
      @clients.merge!(clients)
    end

    def bytesize
      @data.bytesize
    end

    def take
      return if @data.empty? && @clients.empty?

      taken = [@data, @clients]
      initialize
      taken
    end
  end

  # Keeps what it is asked to do; stands still while `gate` is closed.
  output_class = Class.new do
    attr_reader :calls, :data
    attr_accessor :gate, :trouble

    def initialize(name = "output")
      @name = name
      @calls = []
      @data = +""
      @gate = @trouble = nil
    end

    def write(data, clients)
      @gate&.wait
      @data << data
      @calls << [:write, data.dup, clients]
    end

    %i[sync reopen].each { |name| define_method(name) { @calls << name } }

    def to_s
      @name
    end
  end

  session_class = Struct.new(:client_id, :received, :acknowledged) do
    def acknowledge(sequence)
      self.acknowledged = (acknowledged || []) << sequence
    end
  end

  define_method(:new_sink) { sink_class.new }
  define_method(:new_output) { |name = "output"| output_class.new(name) }
  define_method(:new_session) { |id, received| session_class.new(id, received) }

  def test_what_is_in_the_sinks_is_written_each_interval
    with_committer(interval: 0.01) do |_, sink, output|
      sink.add("one\n")
      eventually { output.data == "one\n" }
      sink.add("two\n")
      eventually { output.data == "one\ntwo\n" }
      refute_includes output.calls, :sync
    end
  end

  def test_it_is_synced_each_sync_interval_once_it_is_written
    with_committer(interval: 0.01, sync_interval: 0.03) do |committer, sink, output|
      sink.add("one\n")
      eventually { output.calls == [[:write, "one\n", {}], :sync] }
      assert_in_delta 0.0, committer.unsynced_s
    end
  end

  def test_a_sync_interval_of_0_means_never
    with_committer(interval: 0.001, sync_interval: 0) do |_, sink, output|
      20.times do
        sink.add("x")
        sleep 0.002
      end
      refute_includes output.calls, :sync
    end
  end

  def test_acknowledged_clients_wait_for_the_commit_interval_only
    with_committer(interval: 60) do |committer, sink, output|
      session = new_session("a" * 32, 7)
      sink.add("one\n", { session.client_id => 7 })
      committer.commit_soon(session)
      eventually { session.acknowledged }
      assert_equal [7], session.acknowledged
      assert_equal [[:write, "one\n", { session.client_id => 7 }], :sync], output.calls
    end
  end

  def test_who_has_nothing_in_any_sink_is_acknowledged_too
    with_committer(interval: 60) do |committer, _, output|
      session = new_session("a" * 32, 9)
      committer.commit_soon(session)
      eventually { session.acknowledged == [9] }
      assert_empty output.calls
    end
  end

  def test_a_session_waits_for_all_its_outputs
    fast_sink, slow_sink = new_sink, new_sink
    fast, slow = new_output("fast"), new_output("slow")
    slow.gate = Gyre::Promise.new
    run_committer([[fast_sink, fast], [slow_sink, slow]], interval: 60) do |committer|
      both, one = new_session("a" * 32, 2), new_session("b" * 32, 5)
      fast_sink.add("f", { both.client_id => 1, one.client_id => 5 })
      slow_sink.add("s", { both.client_id => 2 })
      [both, one].each { |session| committer.commit_soon(session) }
      eventually { one.acknowledged == [5] }
      assert_nil both.acknowledged
      assert_equal 1, committer.bytes
      # Later ones of the same client come after it, though their output is free.
      both.received = 3
      fast_sink.add("g", { both.client_id => 3 })
      committer.commit_soon(both)
      eventually { fast.data == "fg" }
      sleep 0.001
      assert_nil both.acknowledged
      slow.gate.resolve
      eventually { both.acknowledged }
      assert_equal [3], both.acknowledged
      assert_equal 0, committer.bytes
    end
  end

  def test_an_output_that_stands_still_holds_up_no_other
    stuck_sink, sink = new_sink, new_sink
    stuck, output = new_output("stuck"), new_output("free")
    stuck.gate = Gyre::Promise.new
    stuck.trouble = "disk full"
    run_committer([[stuck_sink, stuck], [sink, output]], interval: 0.005) do |committer|
      5.times do |index|
        stuck_sink.add("s#{index}")
        sink.add("f#{index}")
        eventually { output.data.end_with?("f#{index}") }
      end
      assert_equal 10, committer.bytes
      assert_operator committer.unwritten_s, :>, 0
      refute committer.flush(0.01)
      status = committer.status.first
      assert_equal ["stuck", 10, 0, "disk full"], status.values_at(:output, :bytes, :written, :trouble)
      stuck.gate.resolve
      assert committer.flush(30)
      assert_equal "s0s1s2s3s4", stuck.data
      assert_equal 0, committer.bytes
      # What came while it stood still went in one write.
      assert_equal 2, stuck.calls.count { |call| call.is_a?(Array) }
    end
  end

  def test_flush_writes_and_syncs_and_waits_for_it
    with_committer(interval: 60) do |committer, sink, output|
      sink.add("one\n")
      assert committer.flush(30)
      assert_equal [[:write, "one\n", {}], :sync], output.calls
    end
  end

  # While more comes without end.
  def test_a_sync_and_a_reopen_are_not_put_off_by_what_comes_later
    with_committer(interval: 0.001, sync_interval: 0.01) do |committer, sink, output|
      def output.write(*)
        super
        sleep 0
        @refill.call
      end
      output.instance_variable_set(:@refill, -> { sink.add("more\n") && committer.send(:pass) })
      sink.add("one\n")
      eventually { output.calls.include?(:sync) }
      committer.reopen
      eventually { output.calls.include?(:reopen) }
      assert committer.flush(30)
      output.instance_variable_set(:@refill, -> {})
    end
  end

  def test_reopen_comes_after_what_is_there
    with_committer(interval: 60) do |committer, sink, output|
      sink.add("one\n")
      committer.reopen
      eventually { output.calls.last == :reopen }
      assert_equal [[:write, "one\n", {}], :reopen], output.calls
    end
  end

  def test_two_sinks_of_one_output_are_never_written_at_once
    sinks = [new_sink, new_sink]
    output = new_output
    output.gate = Gyre::Promise.new
    run_committer(sinks.map { |sink| [sink, output] }, interval: 60) do |committer|
      session = new_session("a" * 32, 2)
      sinks[0].add("a", { session.client_id => 1 })
      sinks[1].add("b", { session.client_id => 2 })
      committer.commit_soon(session)
      sleep 0.02
      output.gate.resolve
      eventually { session.acknowledged == [2] }
      assert_equal [[:write, "ab", { session.client_id => 2 }], :sync], output.calls
    end
  end

  def test_an_interval_of_0_does_not_spin_and_works
    with_committer(interval: 0) do |_, sink, output|
      sink.add("x")
      eventually { output.data == "x" }
    end
  end

  def test_what_an_output_raises_ends_the_run
    output = new_output
    def output.write(*)
      raise "broken"
    end
    sink = new_sink
    sink.add("x")
    error = assert_raises(RuntimeError) { Gyre.run { Gyre::Log::Committer.new([[sink, output]], interval: 0.001).run } }
    assert_equal "broken", error.message
  end

  private

  def with_committer(**options)
    sink, output = new_sink, new_output
    run_committer([[sink, output]], **options) { |committer| yield committer, sink, output }
  end

  def run_committer(pairs, **options)
    Gyre.run do |task|
      committer = Gyre::Log::Committer.new(pairs, **options)
      running = task.async { committer.run }
      yield committer
      committer.stop
      running.wait
    end
  end
end
