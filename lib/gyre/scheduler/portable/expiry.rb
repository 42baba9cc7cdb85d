# frozen_string_literal: true

# Ends a timeout_after when its timer fires. Made by Scheduler::Portable.

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

        # Called by the timer, and again if an exception for the thread has interrupted the call.
        # The block may end while the exception's constructor waits.
        def call
          return if @sent || @making

          Thread.handle_interrupt(SpinLock::NEVER) do
            @error ||= make_error
            @inbox.interrupt(@fiber, @error) unless @withdrawn
            @sent = true
          end
        end

        # Called at the block's end: the exception is not raised afterwards.
        def withdraw
          @withdrawn = true
          Strand.of(@fiber).withdraw(@error) if @error
        end

        private

        # Makes the exception. If its constructor raises another exception, returns that one.
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
