# frozen_string_literal: true

# ConditionVariable#wait in a fiber of a scheduler. A signal may come just before its fiber is
# stopped or out of time, or while it takes the mutex again on its way out; Ruby has taken it off
# the list of waiters then, so no other one would get the signal. Here it is signalled again.

module Gyre
  class Scheduler
    # Prepended to ConditionVariable.
    module ConditionWait
      def wait(mutex, timeout = nil)
        scheduler = Fiber.current_scheduler
        return super unless scheduler.is_a?(Scheduler)

        ended = false
        begin
          scheduler.expect_signal(mutex)
          result = MutexSleep.owning(mutex) { super }
          ended = true
          result
        ensure
          signalled = scheduler.signalled?
          signal if signalled && !ended
        end
      end
    end

    Thread::ConditionVariable.prepend(ConditionWait)
  end
end
