# frozen_string_literal: true

# Measures one row of blocking_work.rb in a process of its own, for `bench/blocking`: ten at once on
# one loop, and how long another fiber of the loop was held up meanwhile. Prints JSON.

require "json"
require "gyre"
require_relative "blocking_work"

# The measurement.
module BlockingChild
  TIMES = 10
  # Below this, the loop was not held, and the pool of threads is not measured.
  HELD_S = 0.1

  module_function

  def measure(work)
    Gyre.run do |task|
      longest = 0.0
      other = task.async { watch { |late| longest = late if late > longest } }
      sleep 0.05
      from = now
      Array.new(TIMES) { task.async { work.call } }.each(&:wait)
      took = now - from
      sleep 0.01
      other.stop
      [took, longest]
    end
  end

  def watch
    loop do
      from = now
      sleep 0.005
      yield now - from - 0.005
    end
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def run(row)
    if row.gem
      gem row.gem
      require row.gem
    end
    work = row.prepare.call
    plain = measure(work)
    pooled = measure(-> { Gyre.blocking { work.call } }) if plain.last > HELD_S
    version = Gem.loaded_specs[row.gem]&.version if row.gem
    puts JSON.generate(version: version, plain: plain, pooled: pooled)
  end
end

BlockingChild.run(Bench::BlockingWork::ROWS.fetch(ARGV.first.to_i))
