# frozen_string_literal: true

# Runs Action Cable's tasks and timers in fibers of the server's loop, in place of its threads.

require "gyre/clock"
require "gyre/scheduler"

module Gyre
  module Web
    module Cable
      # Any thread may call {#post}.
      class EventLoop
        # A repeated call. Timers of one interval share a fiber.
        Timer = Struct.new(:task, :due_s, :over) do
          def shutdown = self.over = true
        end

        # The block gets errors of tasks.
        def initialize(&report)
          @report = report
          @timers = Hash.new { |all, interval| all[interval] = [] } # in the order in which they are due
        end

        # Takes the loop of the first cable, for calls of other threads.
        def adopt(socket) = @thread_calls ||= socket.thread_calls

        # Runs a task in a fiber of the loop: within the loop at once until its first wait.
        def post(task = nil, &block)
          task ||= block
          work = -> { run(task) }
          return Fiber.scheduler.spawn(&work) if Fiber.scheduler.is_a?(Scheduler)

          @thread_calls ? @thread_calls.post(work) : work.call # without cables there is no loop to keep free
        rescue IOError
          nil # the server has ended
        end

        def timer(interval, &block)
          timer = Timer.new(block, Clock.now + interval)
          timers = @timers[interval]
          timers << timer
          post { tick(interval, timers) } if timers.size == 1
          timer
        end

        def stop = nil

        private

        def tick(interval, timers)
          while (timer = timers.first)
            left_s = timer.due_s - Clock.now
            sleep(left_s) if left_s.positive? && !timer.over
            post(timer.task) unless timer.over
            timer.due_s = Clock.now + interval
            timers.shift
            timers << timer unless timer.over
          end
        end

        def run(task)
          task.call
        rescue StandardError => error
          @report.call(error)
        end
      end
    end
  end
end
