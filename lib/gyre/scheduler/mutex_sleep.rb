# frozen_string_literal: true

# Mutex#sleep in a fiber of a scheduler, and so ConditionVariable#wait. On Ruby 3.1, who is stopped there, or out of time, goes
# on without the mutex: the `synchronize` around it then raises a ThreadError in place of what was on its way. Later Rubies take
# the mutex again first, but so it is there, too, when a second one comes meanwhile, as a timeout after a stop. Here it is
# taken again whatever comes. Without an exception nothing changes.

module Gyre
  class Scheduler
    # Prepended to Mutex.
    # @api private
    module MutexSleep
      def sleep(*)
        super
      ensure
        MutexSleep.take_again(self) unless owned?
      end

      # Whatever comes meanwhile has to wait for it, too.
      # @param mutex [Thread::Mutex]
      def self.take_again(mutex)
        later = nil
        begin
          mutex.lock
        rescue ThreadError
          raise
        rescue Exception => later # rubocop:disable Lint/RescueException -- raised below
          retry
        end
        raise later if later
      end
    end

    Thread::Mutex.prepend(MutexSleep)
  end
end
