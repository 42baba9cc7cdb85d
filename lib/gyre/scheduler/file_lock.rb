# frozen_string_literal: true

# File#flock in a fiber of a Gyre::Scheduler: Ruby has no hook, and waiting for another fiber's lock
# would stop the thread. Tries first, then waits in a thread. An abandoned wait (a timeout, a stop)
# never takes the lock later.

require_relative "../offload"

module Gyre
  class Scheduler
    module FileLock
      def flock(operation)
        waits = operation.is_a?(Integer) && (operation & (File::LOCK_NB | File::LOCK_UN)).zero?
        return super unless waits && Fiber.current_scheduler.is_a?(Scheduler)

        super(operation | File::LOCK_NB) || lock_in_thread(operation)
      end

      private

      # Unlocks a lock taken during a cancellation. flock(2) has dropped an earlier lock before
      # waiting.
      def lock_in_thread(operation)
        locked = false
        result = Offload.call(abandon: :seen) { flock(operation) }
        locked = true
        result
      ensure
        flock(File::LOCK_UN) unless locked || closed?
      end
    end

    File.prepend(FileLock)
  end
end
