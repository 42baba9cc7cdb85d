# frozen_string_literal: true

# Async's tasks on Gyre's loop: a barrier around ten downloads, a semaphore that runs three at a
# time, a transient task that ticks, and a timeout that ends slow downloads.
#
#   ruby -Ilib examples/async/tasks.rb

require "gyre/async"
require "async"
require "async/barrier"
require "async/semaphore"

started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
Async do |task|
  ticks = 0
  task.async(transient: true) { loop { sleep(0.05).then { ticks += 1 } } }

  barrier = Async::Barrier.new
  semaphore = Async::Semaphore.new(3, parent: barrier)
  running = most = 0
  10.times do
    semaphore.async do
      most = [most, running += 1].max
      sleep 0.1
      running -= 1
    end
  end
  barrier.wait
  puts "10 downloads, #{most} at a time"

  begin
    task.with_timeout(0.1) { sleep 10 }
  rescue Async::TimeoutError
    puts "timeout: #{ticks} ticks so far"
  end

  sleeper = task.async do
    sleep
  ensure
    puts "the sleeper cleans up"
  end
  sleeper.stop
end
puts format("done in %.2f s", Process.clock_gettime(Process::CLOCK_MONOTONIC) - started)
