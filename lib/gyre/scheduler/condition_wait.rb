# frozen_string_literal: true

# ConditionVariable#wait in a scheduler's fiber: signals once more if the signalled fiber is
# stopped, times out, or takes the mutex again. Ruby has removed it from the waiters, so the signal
# would be lost.

module Gyre
  class Scheduler
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
