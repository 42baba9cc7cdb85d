# frozen_string_literal: true

# Mutex#sleep in a fiber of a scheduler, and so ConditionVariable#wait. On Ruby 3.1, a fiber that is
# stopped there, or out of time, goes on without the mutex: the `synchronize` around it then raises
# a ThreadError in place of what was on its way. Later Rubies take the mutex again first, but do the
# same when a second exception comes meanwhile, as a timeout after a stop. Here it is taken again
# whatever comes. Without an exception nothing changes. ConditionVariable#wait (condition_wait.rb)
# does the same by itself, because Ruby 4.0 calls no method of a plain Mutex there.

module Gyre
  class Scheduler
    # Prepended to Mutex.
    module MutexSleep
      def sleep(*)
        MutexSleep.owning(self) { super }
      end

      # Runs the block, which gives the mutex up for a sleep, and has it when the block is left.
      # @param mutex [Thread::Mutex]
      def self.owning(mutex)
        before = $!
        yield
      ensure
        stop = overtaken($!, before)
        take_again(mutex, stop) unless mutex.owned?
        raise stop if stop
      end

      # A stop that was on its way when a timeout replaced it. A program that rescues the timeout
      # would go on although it was stopped.
      # @param error [Exception, nil]
      # @param before [Exception, nil] what was on its way before
      # @return [Stop, nil]
      def self.overtaken(error, before)
        until error.nil? || error.equal?(before)
          return error if error.is_a?(Stop)

          error = error.cause
        end
      end

      # Whatever comes meanwhile has to wait for it, too.
      # @param mutex [Thread::Mutex]
      # @param stop [Stop, nil] what is on its way, and nothing replaces
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
