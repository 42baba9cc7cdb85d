# frozen_string_literal: true

# Three threads that sleep one second each, joined from a fiber in about one second, while other
# fibers run.
#
#   ruby -Ilib examples/sleeping_threads.rb

require "gyre"

started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
ticks = 0
Gyre.run do |task|
  task.async(transient: true) { (sleep 0.1) && ticks += 1 while true }
  threads = Array.new(3) { |index| Thread.new { (sleep 1) && "thread #{index} slept" } }
  threads.each { |thread| puts thread.value }
end
puts format("3 threads in %<seconds>.2f s, %<ticks>d ticks meanwhile",
            seconds: Process.clock_gettime(Process::CLOCK_MONOTONIC) - started, ticks: ticks)
