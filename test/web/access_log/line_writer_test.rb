# frozen_string_literal: true

# What takes lines too slowly holds nothing up: Gyre::Web::LineWriter.

require "test_helper"
require "gyre"
require "gyre/web/access_log/line_writer"

class WebLineWriterTest < Minitest::Test
  # Takes lines when the test lets it.
  class Gate
    attr_reader :taken

    def initialize
      @open = Thread::Queue.new
      @taken = Thread::Queue.new
    end

    def writer(**options) = Gyre::Web::LineWriter.new(**options) { |*batch| take(batch) }

    def open(times = 1) = times.times { @open << true }

    private

    def take(batch)
      @taken << [:begun, *batch]
      @open.pop
    end
  end

  def setup
    @gate = Gate.new
  end

  def test_lines_that_come_together_are_written_together_and_in_order
    writer = @gate.writer
    writer.add("first\n")
    @gate.taken.pop
    assert(%W[a\n b\n c\n].all? { |line| writer.add(line) })
    @gate.open(2)
    assert_equal [:begun, "a\nb\nc\n", 0], @gate.taken.pop
    writer.close
  end

  def test_beyond_the_limit_lines_are_dropped_and_counted_and_the_next_write_has_the_count
    writer = @gate.writer(bytes_limit: 10)
    writer.add("one\n")
    assert_equal [:begun, "one\n", 0], @gate.taken.pop
    assert_equal([true, false, true, false], ["1234567\n", "abc\n", "z\n", "y\n"].map { |line| writer.add(line) })
    assert_equal 2, writer.dropped
    @gate.open(2)
    assert_equal [:begun, "1234567\nz\n", 2], @gate.taken.pop
    assert_equal 0, writer.close
  end

  def test_closing_waits_for_a_limited_time_and_counts_lost_lines
    writer = @gate.writer
    writer.add("one\n")
    @gate.taken.pop
    writer.add("two\nthree\n")
    refute_predicate writer, :empty?
    assert_equal 2, writer.close(0.01)
    refute writer.add("four\n")
  end

  def test_a_loop_goes_on_while_nothing_takes_lines
    Gyre.run do
      writer = @gate.writer(bytes_limit: 100_000)
      20_000.times { writer.add("a line of some length\n") }
      assert_operator writer.dropped, :>, 10_000
      @gate.open(20_000)
      writer.close
    end
  end
end
