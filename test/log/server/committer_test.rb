# frozen_string_literal: true

# Gyre::Log::Committer: when the sinks are taken, in which order outputs are written, synced and
# sessions acknowledged.

require "test_helper"
require "support/engines"
require "gyre"
require "gyre/log/server/committer"
require "gyre/log/server/session"
require "oracle/log/session"

GyreTest::Engines.test_case("LogCommitterTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  # What an ingest's sink offers to the committer.
  sink_class = Class.new do
    def initialize
      @data = +""
      @clients = {}
    end

    def add(text, records = {})
      @data << text
      records.each do |session, sequence|
        session.new_for?(self, sequence)
        session.receive(sequence)
        @clients[session.client_id] = sequence
      end
    end

    def bytesize
      @data.bytesize
    end

    def written; end

    def full?
      false
    end

    def dropped
      0
    end

    def take(into)
      return if @data.empty? && @clients.empty?

      taken = [into.replace(@data), @clients]
      initialize
      taken
    end
  end

  # Keeps what it is asked to do; stands still while `gate` is closed.
  output_class = Class.new do
    attr_reader :calls, :data
    attr_accessor :gate, :trouble, :opening

    def initialize(name = "output")
      @name = name
      @calls = []
      @data = +""
      @gate = @trouble = @opening = nil
    end

    def write(data, clients)
      @gate&.wait
      @data << data
      @calls << [:write, String.new(data), clients]
    end

    def prepare
      @opening&.wait
    end

    def status
      { trouble: trouble, spilled: 0 }
    end

    %i[sync reopen].each { |name| define_method(name) { @calls << name } }

    def to_s
      @name
    end
  end

  # A connected client, and the acknowledgements that it got.
  listener_class = Struct.new(:session, :acknowledgements) do
    def acknowledged
      acknowledgements << session.acknowledged
    end
  end

  define_method(:new_sink) { sink_class.new }
  define_method(:new_output) { |name = "output"| output_class.new(name) }
  define_method(:new_session) do |letter|
    LogOracle::Session.new(letter * 32, {}).tap do |session|
      session.singleton_class.prepend(Gyre::Log::Session)
      session.connection = listener_class.new(session, [])
    end
  end

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
      eventually { committer.status.first[:unsynced_s].zero? }
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
      session = new_session("a")
      sink.add("one\n", { session => 7 })
      committer.commit_soon(session)
      eventually { session.acknowledged == 7 }
      assert_equal [7], session.connection.acknowledgements
      assert_equal [[:write, "one\n", { session.client_id => 7 }], :sync], output.calls
    end
  end

  def test_a_client_with_nothing_in_any_sink_is_acknowledged_too
    with_committer(interval: 60) do |committer, _, output|
      session = new_session("a")
      session.receive(9)
      committer.commit_soon(session)
      eventually { session.acknowledged == 9 }
      assert_empty output.calls
    end
  end

  def test_a_session_waits_for_all_its_outputs
    fast_sink, slow_sink = new_sink, new_sink
    fast, slow = new_output("fast"), new_output("slow")
    slow.gate = Gyre::Promise.new
    run_committer([[fast_sink, fast], [slow_sink, slow]], interval: 60) do |committer|
      both, one = new_session("a"), new_session("b")
      fast_sink.add("f", { both => 1, one => 5 })
      slow_sink.add("s", { both => 2 })
      [both, one].each { |session| committer.commit_soon(session) }
      eventually { one.acknowledged == 5 }
      assert_equal 0, both.acknowledged
      assert_equal 1, committer.bytes
      # Later ones of the same client come after it, though their output is free.
      fast_sink.add("g", { both => 3 })
      committer.commit_soon(both)
      eventually { fast.data == "fg" }
      sleep 0.001
      assert_equal 0, both.acknowledged
      slow.gate.resolve
      eventually { both.acknowledged.positive? }
      assert_equal [3], both.connection.acknowledgements
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
      assert_equal [2, 8], [committer.bytes, stuck_sink.bytesize]
      assert_operator committer.status.first[:unwritten_s], :>, 0
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

  def test_flush_is_done_at_its_end_when_an_output_without_lines_turns_out_to_be_away
    output = new_output
    output.opening = Gyre::Promise.new
    run_committer([[new_sink, output]]) do |committer|
      Gyre::Task.current.async do
        sleep 0.05
        output.trouble = "away"
      end
      assert committer.flush(0.2)
      assert committer.flush, "at once"
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

  def test_a_reopen_may_be_waited_for
    with_committer(interval: 60) do |committer, _sink, output|
      assert committer.reopen(20)
      assert_equal :reopen, output.calls.last
      refute committer.reopen(0)
      output.define_singleton_method(:reopen) { false } # the former file is kept
      refute committer.reopen(20)
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

  # A commit takes what is there when its output is free, also what came after the pass that asked
  # for it.
  def test_what_came_during_a_commit_is_acknowledged_by_the_next
    with_committer(interval: 60) do |committer, sink, output|
      session = new_session("a")
      output.gate = Gyre::Promise.new
      sink.add("one\n", { session => 1 })
      committer.commit_soon(session)
      eventually { committer.bytes.positive? }
      committer.commit_soon(session)
      committer.send(:pass)
      sink.add("two\n", { session => 2 })
      committer.commit_soon(session)
      output.gate.resolve
      eventually { session.acknowledged == 2 }
      assert_equal [1, 2], session.connection.acknowledgements
      assert_equal [[:write, "one\n", { "a" * 32 => 1 }], :sync, [:write, "two\n", { "a" * 32 => 2 }], :sync], output.calls
      sleep 0.03
      assert_equal 4, output.calls.size, "nothing is left to do"
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
      running.stop
      running.wait
    end
  end
end
