# frozen_string_literal: true

# Callbacks of the portable loop: blocks of `watch` and `after`, and the end of a `timeout_after`.
# Scheduler::Portable makes them as targets of timers and watches.

module Gyre
  class Scheduler
    module Portable
      # A block for the loop; its handle cancels it.
      class Callback
        # `handles` keeps it while active, so that `run` continues.
        def initialize(scheduler, handles, block)
          @scheduler = scheduler
          @handles = handles
          @block = block
        end

        def start(registration)
          @registration = registration
          @handles[self] = true
          self
        end

        # Ignored once it is over.
        def cancel
          @handles.delete(self)
          @registration.cancel
        end

        def call
          run if @handles.delete(self)
        end

        def ready(events) = run(events)

        # Called by the watch: the descriptor is closed.
        def failed(_error)
          run(0) if @handles.delete(self)
        end

        private

        def run(*arguments)
          @block.call(*arguments)
        rescue SystemExit, SignalException
          raise # ends the fiber that drives the loop
        rescue Exception => error # rubocop:disable Lint/RescueException -- the loop goes on
          @scheduler.report(error, nil)
        end
      end

      # The end of a timeout_after.
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
