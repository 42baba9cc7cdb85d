# frozen_string_literal: true

# File#flock in a fiber of a Gyre::Scheduler. Ruby asks no scheduler about it: a fiber that waits
# for a lock which another fiber of its thread holds would stop the thread for ever. Here it is
# tried first, and waited for in a thread while others run. A wait that is given up (a timeout, a
# stopped task) never takes the lock later. Elsewhere nothing changes.

require_relative "../offload"

module Gyre
  class Scheduler
    # Prepended to File.
    module FileLock
      def flock(operation)
        waits = operation.is_a?(Integer) && (operation & (File::LOCK_NB | File::LOCK_UN)).zero?
        return super unless waits && Fiber.current_scheduler.is_a?(Scheduler)

        super(operation | File::LOCK_NB) || lock_in_thread(operation)
      end

      private

      # The lock may have been taken in the moment in which the wait was given up. An earlier one is
      # gone by then in any case: flock(2) drops it before it waits.
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
