# frozen_string_literal: true

# Runs Action Cable's tasks and timers in fibers of the server's loop, in place of its threads.

require "gyre/scheduler"

module Gyre
  module Web
    module Cable
      # Any thread may call {#post}.
      class EventLoop
        # A repeated call. Timers of one interval share a fiber.
        Timer = Struct.new(:task, :due_s) do
          # The task may hold a cable, and the interval be long.
          def shutdown = self.task = nil
          def over = task.nil?
        end

        # The block gets errors of tasks.
        def initialize(&report)
          @report = report
          @timers = Hash.new { |all, interval| all[interval] = [] } # in the order in which they are due
          @ticking = {} # intervals whose timers have their fiber
        end

        # Takes the loop of the newest cable, for calls of other threads and loops, and for timers
        # that wait for a loop. An earlier server of the process may have ended.
        def adopt(socket)
          @thread_calls, @scheduler = socket.thread_calls, Fiber.scheduler
          @timers.keys.each { |interval| begin_ticking(interval) }
        end

        # Runs a task in a fiber of the loop: within the loop at once until its first wait.
        def post(task = nil, &block)
          task ||= block
          work = -> { run(task) }
          return Fiber.scheduler.spawn(&work) if inside?

          @thread_calls ? @thread_calls.post(work) : work.call # without cables there is no loop to keep free
        rescue IOError
          nil # the server has ended
        end

        def timer(interval, &block)
          timer = Timer.new(block, Clock.now + interval)
          @timers[interval] << timer
          begin_ticking(interval)
          timer
        end

        def stop = nil
        alias shutdown stop

        private

        # False in loops of others, such as that of Broadcast::Redis, which have no cables.
        def inside? = @scheduler ? @scheduler.equal?(Fiber.scheduler) : Fiber.scheduler.is_a?(Scheduler)

        def begin_ticking(interval)
          return if @ticking[interval] || !(@thread_calls || inside?)

          @ticking[interval] = true
          post { tick(interval, @timers[interval]) }
        end

        def tick(interval, timers)
          while (timer = timers.first)
            left_s = timer.due_s - Clock.now
            sleep(left_s) if left_s.positive? && !timer.over
            post(timer.task) unless timer.over
            timer.due_s = Clock.now + interval
            timers.shift
            timers << timer unless timer.over
          end
        ensure
          @ticking.delete(interval)
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
