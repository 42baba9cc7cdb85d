# frozen_string_literal: true

# Mutex#sleep in a scheduler's fiber, and thus ConditionVariable#wait. On Ruby 3.1, a fiber that is
# stopped or out of time there continues without the mutex: the `synchronize` around it raises a
# ThreadError instead. Later Rubies take the mutex again, unless a second exception follows, such as
# a timeout after a stop. Always takes it again here. ConditionVariable#wait (condition_wait.rb)
# does the same by itself, as Ruby 4.0 calls no method of a plain Mutex there.

module Gyre
  class Scheduler
    module MutexSleep
      def sleep(*) = MutexSleep.owning(self) { super }

      # Runs the block, which releases the mutex for a sleep, and then holds the mutex again.
      def self.owning(mutex)
        before = $!
        yield
      ensure
        stop = overtaken($!, before)
        take_again(mutex, stop) unless mutex.owned?
        raise stop if stop
      end

      # Returns the stop (`before`) that a timeout replaced. Otherwise a program that rescues the
      # timeout would continue although it was stopped.
      def self.overtaken(error, before)
        until error.nil? || error.equal?(before)
          return error if error.is_a?(Stop)

          error = error.cause
        end
      end

      # Defers exceptions for the thread meanwhile, so that none replaces `stop`, which is
      # propagating.
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
