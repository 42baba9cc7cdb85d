# frozen_string_literal: true

# Keeps a forked child off its parent's loop. Hooks into Process._fork (Ruby 3.1), used by fork and
# IO.popen("-"), and into Process.daemon; calls the thread's scheduler on either engine. Ruby 4.0
# removes the scheduler from the child's thread and makes the forking fiber a blocking one. Inside
# Gyre.run it is set again, for the continuing task and the tasks that it starts.

module Gyre
  class Scheduler
    module Fork
      def _fork
        scheduler = Fiber.scheduler
        pid = super
        if pid.zero?
          Offload.process_fork
          if scheduler.is_a?(Scheduler)
            scheduler.process_fork
            Fiber.set_scheduler(scheduler) unless Fiber.scheduler || scheduler.runs.empty?
            scheduler.runs.each(&:process_fork)
            scheduler.watchdog&.process_fork
          end
        end
        pid
      end

      # The thread's fibers continue in the daemon, which replaces the calling process; other
      # threads do not.
      def daemon(*)
        from = Process.pid
        scheduler = Fiber.scheduler
        super.tap do
          if scheduler.is_a?(Scheduler)
            scheduler.process_move
            Fiber.set_scheduler(scheduler) unless Fiber.scheduler
            scheduler.watchdog&.process_fork
          end
          Loop::Traps.process_move(from)
          Offload.process_move
        end
      end
    end

    Process.singleton_class.prepend(Fork)
  end
end
