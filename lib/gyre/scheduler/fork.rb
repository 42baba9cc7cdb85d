# frozen_string_literal: true

# A forked child must not share its parent's loop. This hooks into Process._fork (Ruby 3.1), which
# fork and IO.popen("-") go through, and into Process.daemon, which does not; it calls the thread's
# scheduler, whatever engine that is. Ruby 4.0 takes the scheduler from a child's thread, and makes
# the fiber that forked a blocking one. A task goes on in the child, and others that it starts need
# the scheduler: so it is set again inside of Gyre.run.

module Gyre
  class Scheduler
    # Prepended to Process's singleton class.
    module Fork
      # @return [Integer] as Process._fork
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

      # The daemon takes the place of the process that called, so the thread's fibers go on in it.
      # Other threads do not.
      # @return [Integer] as Process.daemon
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
