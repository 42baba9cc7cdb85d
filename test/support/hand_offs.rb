# frozen_string_literal: true

# Whether a queue loses or doubles anything when threads and tasks hand much over at once. Included
# by the queues' tests.

module GyreTest
  # For test classes.
  module HandOffs
    # Two threads fill the queue; another one and some tasks carry what comes out to a second queue,
    # and a task adds it up.
    def assert_nothing_is_lost(queue, answers, count:, tasks:)
      threads = Array.new(2) { |half| Thread.new { (count / 2).times { |index| queue.push((half * count / 2) + index) } } }
      threads << Thread.new { queue.each { |item| answers.push(item) } }
      sum = 0
      Gyre.run do |task|
        tasks.times { task.async { queue.each { |item| answers.push(item) } } }
        task.async do
          count.times { sum += answers.pop(timeout: 60) || flunk("nothing came") }
          queue.close
        end
      end
      threads.each(&:join)
      assert_equal count * (count - 1) / 2, sum
    end
  end
end
