# frozen_string_literal: true

# The end of a timeout_after, called by its timer. Made by Scheduler::Portable.

module Gyre
  class Scheduler
    module Portable
      class Expiry
        attr_reader :error

        def initialize(inbox, fiber, exception)
          @inbox = inbox
          @fiber = fiber
          @exception = exception
        end

        # Called by the timer, and again after an exception for the thread. The block may end while
        # the exception's constructor waits.
        def call
          return if @sent || @making

          Thread.handle_interrupt(SpinLock::NEVER) do
            @error ||= make_error
            @inbox.interrupt(@fiber, @error) unless @withdrawn
            @sent = true
          end
        end

        # Raises nothing after the block's end.
        def withdraw
          @withdrawn = true
          Strand.of(@fiber).withdraw(@error) if @error
        end

        private

        # An exception of the constructor takes the error's place.
        def make_error
          @making = true
          FiberRaise.exception(*@exception)
        rescue StandardError => error
          error
        ensure
          @making = false
        end
      end
    end
  end
end
