# frozen_string_literal: true

# Timers are sleeping tasks: one fires once, one fires until it is stopped, and one keeps its beat
# although its work takes time.
#
#   ruby -Ilib examples/timers.rb

require "gyre"

started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) - started }
say = ->(text) { puts format("%<at>.1f s  %<text>s", at: now.call, text: text) }

Gyre.run do |task|
  task.async("once") { (sleep 0.25) && say.call("once") }

  recurring = task.async("every 0.1 s", transient: true) do
    (sleep 0.1) && say.call("tick") while true
  end

  task.async("beat") do
    1.upto(3) do |beat|
      sleep [(beat * 0.2) - now.call, 0].max # until the next full beat, however long the work took
      say.call("beat #{beat}")
      sleep 0.05 # work
    end
  end.wait

  recurring.stop
  task.print_hierarchy
end
say.call("done")
