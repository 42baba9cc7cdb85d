# frozen_string_literal: true

# Mutex#sleep in a fiber of a scheduler, and so ConditionVariable#wait. On Ruby 3.1, a fiber that is
# stopped there, or out of time, goes on without the mutex: the `synchronize` around it then raises
# a ThreadError in place of what was on its way. Later Rubies take the mutex again first, but do the
# same when a second exception comes meanwhile, as a timeout after a stop. Here it is taken again
# whatever comes. Without an exception nothing changes.

module Gyre
  class Scheduler
    # Prepended to Mutex.
    module MutexSleep
      def sleep(*)
        before = $!
        super
      ensure
        stop = MutexSleep.overtaken($!, before)
        MutexSleep.take_again(self, stop) unless owned?
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
