# frozen_string_literal: true

# ConditionVariable#wait in a scheduler's fiber. Passes on a signal whose fiber is stopped, times
# out, or takes the mutex again. Ruby has removed the fiber from the waiters already, so no other
# fiber would get the signal. Signals once more.

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
