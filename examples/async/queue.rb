# frozen_string_literal: true

# Queues between Async's tasks, and from a thread: Async::LimitedQueue slows down a fast producer,
# Thread::Queue takes items from a thread.
#
#   ruby -Ilib examples/async/queue.rb

require "gyre/async"
require "async"
require "async/limited_queue"

Async do |task|
  queue = Async::LimitedQueue.new(2)
  longest = 0
  producer = task.async do
    10.times { |number| queue.push(number).then { longest = [longest, queue.size].max } }
    queue.close
  end
  sum = 0
  task.async { queue.each { |number| sleep(0.005).then { sum += number } } }.wait
  producer.wait
  puts "sum #{sum}, never more than #{longest} in the queue"

  from_thread = Thread::Queue.new
  thread = Thread.new do
    3.times { |number| sleep(0.02).then { from_thread << number } }
    from_thread.close
  end
  while (number = from_thread.pop)
    puts "the thread gave #{number}"
  end
  thread.join
end
