# frozen_string_literal: true

# What a keyed loop reports of itself.
require "gyre/loop"

module LoopContract
  # Figures.
  module Figures
    def test_figures_count_what_is_watched_and_what_happened
      reader, writer = new_pipe
      loop = Gyre::Loop.new(backend)
      assert_equal [0, 0, 0], loop.stats.values_at(:turns, :descriptors, :timers)
      loop.watch_io(:io, reader, false, true)
      loop.watch_timer(:timer, 100)
      assert_equal [1, 1, 0], loop.stats.values_at(:descriptors, :timers, :tasks)
      writer.write("x")
      assert_equal :io, loop.next_event
      stats = loop.stats
      %i[turns events].each { |name| assert_operator stats[name], :>, 0, name }
      assert_operator stats[:lag_max_s], :>=, stats[:lag_p50_s]
    ensure
      loop.close
      assert_raises(RuntimeError) { loop.stats }
    end
  end
end
