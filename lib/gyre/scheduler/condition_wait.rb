# frozen_string_literal: true

# ConditionVariable#wait in a scheduler's fiber. Passes the signal to another waiter if an exception
# (a stop, a timeout) reaches the signalled fiber, even while the fiber takes the mutex again. Ruby
# has removed the fiber from the waiters, so the signal would be lost.

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

    # Mutex#sleep in a scheduler's fiber: always takes the mutex again. On Ruby 3.1 a stopped or
    # late fiber continues without the mutex, and `synchronize` raises ThreadError. Later Rubies
    # take the mutex again unless a second exception follows, such as a timeout after a stop.
    # ConditionWait calls {owning} itself, as its `wait` calls no Mutex method on Ruby 4.0.
    module MutexSleep
      def sleep(*) = MutexSleep.owning(self) { super }

      # Takes the mutex again after the block, which releases it for a sleep.
      def self.owning(mutex)
        before = $!
        yield
      ensure
        stop = overtaken($!, before)
        take_again(mutex, stop) unless mutex.owned?
        raise stop if stop
      end

      # Returns the stop that a timeout has replaced, as a program that rescues the timeout must not
      # continue. Ignores a stop from before the block (`before`).
      def self.overtaken(error, before)
        until error.nil? || error.equal?(before)
          return error if error.is_a?(Stop)

          error = error.cause
        end
      end

      # Defers the thread's exceptions, which must not replace the propagating `stop`.
      def self.take_again(mutex, stop = nil)
        later = nil
        begin
          mutex.lock
        rescue ThreadError
          raise
        rescue Exception => error # rubocop:disable Lint/RescueException -- raised below
          later = error unless later.is_a?(Stop)
          retry
        end
        raise later if later && !stop
      end
    end

    Thread::Mutex.prepend(MutexSleep)
  end
end
