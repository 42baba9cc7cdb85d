# frozen_string_literal: true

# Random tasks on each thing that tasks can wait for, with inner fibers, timeouts in the same turn
# and stops at any step, in drawn orders: no wake-up is lost, none comes twice. The stories are in
# test/support/wake_ups.rb. A plain run always has the same ones; `rake test:storm` has others,
# by Minitest's seed.
require "test_helper"
require "support/engines"
require "support/stress"
require "support/wake_ups"

# Both engines, for each has ways of its own to lose one.
GyreTest::Engines.test_case("WakeUpsTest", backends: [GyreTest::Engines::ALL.first, GyreTest::Engines::ALL.last].uniq) do
  include GyreTest::Stress

  GyreTest::WakeUps::SUBJECTS.each do |subject|
    name = subject.name[/\w+\z/].gsub(/(?<=[a-z])(?=[A-Z])/, "_").downcase

    define_method(:"test_#{name}") do
      first = GyreTest::Stress::FACTOR > 1 ? Minitest.seed * 100_000 : 0
      seeds = first...(first + amount(150))
      complaints = seeds.filter_map do |seed|
        GC.start if (seed % 200).zero? # each story leaves a scheduler and its fibers, and a process has room for some 30,000
        complaint = GyreTest::WakeUps.complaint(subject, seed)
        "seed #{seed}: #{complaint}" if complaint
      end
      assert_empty complaints
    end
  end
end
