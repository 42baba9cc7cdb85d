# frozen_string_literal: true

# A thread feeds a Queue, and a fiber takes from it without stopping others: once with Ruby's own
# Queue, once with Gyre::LimitedQueue, where a fast thread has to wait for the fiber.
#
#   ruby -Ilib examples/thread_feeds_queue.rb

require "gyre"

ticks = 0
Gyre.run do |task|
  task.async(transient: true) { (sleep 0.02) && ticks += 1 while true }

  queue = Thread::Queue.new
  thread = Thread.new { 3.times { |index| (sleep 0.1) && queue.push("item #{index}") } && queue.close }
  while (item = queue.pop)
    puts "#{item} from the thread"
  end
  thread.join
  puts ticks > 5 ? "another fiber ran meanwhile" : "the thread stood still"

  limited = Gyre::LimitedQueue.new(2)
  most = 0
  thread = Thread.new { 20.times { |index| limited.push(index) && most = [most, limited.size].max } && limited.close }
  sum = limited.sum { |number| (sleep 0.005) && number }
  thread.join
  puts "sum #{sum}, never more than #{most} in the queue"
end
