# frozen_string_literal: true

# A thread and a fiber share a Mutex. While the thread holds it, only the fiber that needs it waits;
# another fiber ticks on. While the fiber sleeps with the mutex, the thread waits.
#
#   ruby -Ilib examples/shared_mutex.rb

require "gyre"

mutex = Thread::Mutex.new
held = Thread::Queue.new
started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
say = ->(text) { puts format("%<at>.1f s  %<text>s", at: Process.clock_gettime(Process::CLOCK_MONOTONIC) - started, text: text) }

thread = Thread.new do
  mutex.synchronize do
    held.push(true)
    say.call("thread has the mutex")
    sleep 0.3
  end
  sleep 0.1
  mutex.synchronize { say.call("thread has the mutex again") }
end
held.pop

ticks = 0
Gyre.run do |task|
  task.async(transient: true) { (sleep 0.05) && ticks += 1 while true }
  task.async do
    mutex.synchronize do
      say.call("fiber has the mutex, #{ticks.positive? ? "others ticked while it waited" : "none ticked"}")
      sleep 0.3
    end
  end
end
thread.join
