# frozen_string_literal: true

# Gyre::Log::Output::Spilling in front of an output that stands still when a test has it so. The
# clock jumps to the end of its patience as soon as nothing else is to be done.

require "test_helper"
require "support/engines"
require "tmpdir"
require "gyre"
require "gyre/log/output/spilling"
require "gyre/sync/promise"
require "gyre/testing"

GyreTest::Engines.test_case("LogOutputSpillingTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  const_set(:ID, "a" * 32)

  # Takes what it is given; stands still while `gate` is closed.
  peer_class = Class.new do
    include Gyre::Log::Output::Defaults
    attr_reader :calls
    attr_accessor :gate, :trouble

    def initialize
      @calls = []
      @format = :text
      @name = "peer"
    end

    def write(data, clients)
      @gate&.wait
      @calls << [String.new(data), clients]
    end

    def reopen
      @calls << :reopen
    end

    def close; end
  end
  define_method(:new_peer) { peer_class.new }

  def test_what_is_taken_in_time_never_sees_the_disk
    with_output do |output, peer|
      data = +"one"
      output.write(data, { self.class::ID => 1 })
      data.replace("other bytes")
      assert_equal [["one", { self.class::ID => 1 }]], peer.calls
      assert_equal({ trouble: nil, spilled: 0 }, output.status)
    end
  end

  def test_an_output_that_stands_still_gets_all_in_order_once_it_goes_on
    with_output do |output, peer|
      stop(peer)
      %w[one two three].each_with_index { |data, index| output.write(data, { self.class::ID => index }) && output.sync }
      assert_empty peer.calls
      assert_equal [2, nil], [output.stored_by(self.class::ID), output.trouble]
      assert_operator output.status[:spilled], :>, 11
      peer.trouble = "away"
      assert_equal [nil, "away"], [output.trouble, output.status[:trouble]]
      peer.gate.resolve
      output.write("four", nil)
      eventually { peer.calls.map(&:first).join == "onetwothreefour" }
      eventually { output.status[:spilled].zero? }
      assert_equal 2, peer.calls.filter_map(&:last).reduce(:merge)[self.class::ID]
    end
  end

  # So that a kill brings little twice. The clients have all with the last one.
  def test_long_batches_are_cut_at_line_ends
    lines = Array.new(5000) { |number| "#{number} #{"x" * 1000}\n" } << "#{"y" * 5_000_000}\n" << "end\n"
    with_output do |output, peer|
      output.write(lines.join.b, { self.class::ID => 7 })
      stop(peer)
      output.write(lines.join.b, { self.class::ID => 8 })
      assert_equal 8, output.stored_by(self.class::ID)
      peer.gate.resolve
      eventually { output.status[:spilled].zero? }
      assert_equal lines * 2, peer.calls.flat_map { |data, _| data.lines }
      assert_equal [7, 8], peer.calls.filter_map { |_, clients| clients&.[](self.class::ID) }
      assert_operator peer.calls.size, :>=, 6
      peer.define_singleton_method(:format) { :redis }
      output.write(lines.join.b)
      assert_equal lines.join, peer.calls.last.first
    end
  end

  def test_a_full_spill_blocks
    with_output(limit: 5000) do |output, peer|
      stop(peer)
      output.write("x" * 3000)
      writing = Gyre::Task.current.async { output.write("y" * 3000) }
      eventually { output.trouble }
      assert_equal "its spill is full, and its contents are not sent", output.trouble
      refute_predicate writing, :finished?
      peer.gate.resolve
      writing.wait
      eventually { peer.calls.size == 2 }
      assert_equal [nil, 0], [output.trouble, output.status[:spilled]]
    end
  end

  # Larger than the spill altogether.
  def test_what_does_not_fit_at_all_waits_for_the_output
    with_output(limit: 5000) do |output, peer|
      stop(peer)
      writing = Gyre::Task.current.async { output.write("x" * 6000) }
      eventually { output.trouble }
      peer.gate.resolve
      writing.wait
      assert_equal [1, 0], [peer.calls.size, output.status[:spilled]]
    end
  end

  # The spill's folder is gone.
  def test_while_the_disk_fails_too_it_waits_for_whichever_goes_on_first
    with_output do |output, peer|
      stop(peer)
      FileUtils.rm_rf("#{@folder}/spill")
      writing = Gyre::Task.current.async { output.write("one") }
      eventually { output.trouble }
      assert_match(/spill: cannot write: No such file/, output.trouble)
      peer.gate.resolve
      writing.wait
      assert_equal ["one"], peer.calls.map(&:first)
    end
  end

  def test_what_was_left_comes_first
    with_output do |output, peer|
      stop(peer)
      %w[one two].each { |data| output.write(data) }
      output.rest(0)
      output.close
    end
    with_output do |output, peer|
      output.write("three")
      eventually { peer.calls.map(&:first).join == "onetwothree" }
    end
  end

  def test_before_the_end_only_what_it_has_in_hand_is_written
    with_output do |output, peer|
      stop(peer)
      %w[one two].each { |data| output.write(data) }
      resting = Gyre::Task.current.async { output.rest(30) }
      eventually { resting.alive? && output.instance_variable_get(:@resting) }
      peer.gate.resolve
      resting.wait
      assert_equal ["one"], peer.calls.map(&:first)
      output.resume
      eventually { peer.calls.map(&:first) == %w[one two] }
    end
  end

  def test_it_is_reopened_between_two_batches
    with_output do |output, peer|
      stop(peer)
      %w[one two].each { |data| output.write(data) }
      output.reopen
      sleep 0
      assert_empty peer.calls
      peer.gate.resolve
      eventually { peer.calls.size == 3 }
      assert_equal :reopen, peer.calls[1]
    end
  end

  def test_what_the_output_raises_is_raised
    with_output do |output, peer|
      peer.define_singleton_method(:write) { |*| raise "broken" }
      assert_equal "broken", assert_raises(RuntimeError) { loop { output.write("one") } }.message
    end
  end

  private

  def with_output(limit: 1 << 30)
    @folder ||= Dir.mktmpdir
    Gyre::Testing.run(seed: 1) do |task|
      task.async do
        peer = new_peer
        spill = Gyre::Log::Output::Spill.new("#{@folder}/spill", format: :text, limit: limit, lock_patience_s: 0, longest_pause_s: 0.001)
        output = Gyre::Log::Output::Spilling.new(peer, spill, still_s: 1)
        output.prepare
        yield output, peer
      ensure
        spill&.close
      end.wait
    end
  end

  def teardown
    FileUtils.rm_rf(@folder) if @folder
  end

  def stop(peer)
    peer.gate = Gyre::Promise.new
  end
end
