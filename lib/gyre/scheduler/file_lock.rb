# frozen_string_literal: true

# File#flock in a fiber of a Gyre::Scheduler. Ruby calls no hook here, so that waiting for a lock of
# another fiber of the same thread would stop the thread. Tries the lock first, then waits for it in
# a thread while others run. An abandoned wait (a timeout, a stopped task) never takes the lock
# later.

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

      # Unlocks a lock taken at the moment of a cancellation. An earlier lock is lost in any case:
      # flock(2) drops it before waiting.
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
