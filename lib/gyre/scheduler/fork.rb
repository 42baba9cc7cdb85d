# frozen_string_literal: true

# Gives a forked child its own loop on either engine, by wrapping Process._fork (fork,
# IO.popen("-")) and Process.daemon. Ruby 4.0 removes the scheduler in the child and makes the
# forking fiber blocking; inside Gyre.run both are undone.

module Gyre
  class Scheduler
    module Fork
      # Ruby makes the child's forking fiber blocking. A fiber that was so by Fiber.blocking alone
      # is non-blocking again at that block's end.
      RESETS = RUBY_VERSION >= "4.0"

      @depth = 0

      class << self
        # Number of forks that led to this process. Becoming a daemon does not count.
        attr_accessor :depth
      end

      def self.inside_run?(scheduler) = scheduler.is_a?(Scheduler) && scheduler.runs.any?

      def _fork
        scheduler = Fiber.scheduler
        pid = RESETS && Fork.inside_run?(scheduler) ? Fiber.blocking { super } : super
        if pid.zero?
          Fork.depth += 1
          Offload.process_fork
          if scheduler.is_a?(Scheduler)
            scheduler.process_fork
            Fiber.set_scheduler(scheduler) if Fork.inside_run?(scheduler) && !Fiber.scheduler
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
        (RESETS ? Fiber.blocking { super } : super).tap do
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
