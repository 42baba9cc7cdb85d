# frozen_string_literal: true

# Flow: peers that wait for memory go on when it is free.

require "test_helper"
require "gyre/log/server"

class LogFlowTest < Minitest::Test
  # Counts, and raises the failure that it is given.
  Waiting = Struct.new(:turns, :failure) do
    def resume
      self.turns += 1
      raise failure if failure
    end
  end

  Loop = Struct.new(:timers) do
    def watch_timer(*) = timers.push(:on)
    def unwatch(_key) = timers.push(:off)
  end

  # A server's parts, with memory as the test has it.
  Parts = Struct.new(:bytesize) do
    def ingest = self
    def committer = self
    def limits = self
    def routing = nil
    def memory_bytes_limit = 100
    def incomplete = 0
    def bytes = 0
    def stuck_bytes = 0
    def crowded? = false
    def on_written = nil
    def commit_soon(_session) = nil
    def commit_now = nil
  end

  def setup
    @loop = Loop.new([])
    @parts = Parts.new(0)
    @flow = Gyre::Log::Flow.new(@loop, @parts)
  end

  def fill
    @parts.bytesize = 101
    @flow.received(:session)
  end

  def test_one_that_fails_keeps_no_other_one_waiting
    waiting = [Waiting.new(0), Waiting.new(0, IOError.new("first")), Waiting.new(0, IOError.new("second")), Waiting.new(0)]
    fill
    assert_equal [true, false, 1], [@flow.paused?, @flow.held?, @flow.pauses]
    waiting.each { |peer| @flow.park(peer) }
    @flow.check([])
    @parts.bytesize = 50
    assert_equal "first", assert_raises(IOError) { @flow.check([]) }.message
    assert_equal [1, 1, 1, 1], waiting.map(&:turns)
    assert_equal [false, %i[on off]], [@flow.paused?, @loop.timers]
  end

  # Fills memory and waits again as often as it is told to.
  Again = Struct.new(:left, :turns, :flow, :fill) do
    def resume
      self.turns += 1
      return unless (self.left -= 1) >= 0

      fill.call
      flow.park(self)
    end
  end

  def test_one_that_waits_again_meanwhile_waits_for_the_next_time
    again = Again.new(1, 0, @flow, method(:fill))
    @flow.hold { @flow.park(again) }
    assert_equal [true, 1], [@flow.paused?, again.turns]
    @parts.bytesize = 0
    @flow.check([])
    assert_equal [false, 2], [@flow.paused?, again.turns]
  end
end
