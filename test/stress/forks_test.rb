# frozen_string_literal: true

# Random children of tasks against threads as the oracle: a child waits, goes on and ends as Ruby's
# own does, whichever task forked it and however. The stories are in test/support/forks.rb. A plain
# run always has the same ones; `rake test:storm` has others, by Minitest's seed.
require "test_helper"
require "support/engines"
require "support/forks"
require "support/stress"

GyreTest::Engines.test_case("ForksTest", backends: [GyreTest::Engines::ALL.first, GyreTest::Engines::ALL.last].uniq) do
  include GyreTest::Stress

  def test_a_child_of_a_task_does_what_a_child_of_a_thread_does
    skip "needs fork and Gyre::Orphans" unless Process.respond_to?(:fork) && Gyre::Native.available?
    first = GyreTest::Stress::FACTOR > 1 ? Minitest.seed * 100_000 : 0
    complaints = (first...(first + amount(8))).filter_map do |seed|
      story = GyreTest::Forks::Story.draw(Random.new(seed))
      expected, found = [GyreTest::Forks::InThreads.new, GyreTest::Forks::InTasks.new(backend)].map { |world| story.outcome(world) }
      "seed #{seed}: #{story}\n  threads: #{expected}\n  tasks:   #{found}" unless found == expected
    end
    assert_empty complaints
  end
end
