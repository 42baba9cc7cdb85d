# frozen_string_literal: true

# Backpressure: what waits goes on when it is released.

require "test_helper"
require "gyre/log/server/backpressure"

class LogBackpressureTest < Minitest::Test
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

  def setup
    @bytes = 0
    @loop = Loop.new([])
    @backpressure = Gyre::Log::Backpressure.new(@loop, 100, -> { 0 }) { @bytes }
  end

  def test_one_that_fails_keeps_no_other_one_waiting
    waiting = [Waiting.new(0), Waiting.new(0, IOError.new("first")), Waiting.new(0, IOError.new("second")), Waiting.new(0)]
    @bytes = 101
    assert_equal true, @backpressure.check
    waiting.each { |peer| @backpressure.park(peer) }
    @bytes = 50
    assert_equal "first", assert_raises(IOError) { @backpressure.release }.message
    assert_equal [1, 1, 1, 1], waiting.map(&:turns)
    assert_equal [false, 0, %i[on off]], [@backpressure.on?, @backpressure.parked, @loop.timers]
  end

  def test_one_that_waits_again_meanwhile_waits_for_the_next_time
    again = Object.new
    backpressure, bytes = @backpressure, ->(count) { @bytes = count }
    again.define_singleton_method(:resume) { bytes.call(101) && backpressure.check && backpressure.park(self) }
    @backpressure.hold { @backpressure.park(again) }
    assert_equal [true, 1], [@backpressure.on?, @backpressure.parked]
  end
end
