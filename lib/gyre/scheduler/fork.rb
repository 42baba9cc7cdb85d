# frozen_string_literal: true

# Gives a forked child its own loop on either engine, by wrapping Process._fork (fork,
# IO.popen("-")) and Process.daemon. Ruby 4.0 removes the scheduler in the child and makes the
# forking fiber blocking; inside Gyre.run the scheduler is set again.

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

      # The thread's fibers, but no other threads, continue in the daemon.
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
