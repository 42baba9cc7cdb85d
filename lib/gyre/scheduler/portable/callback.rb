# frozen_string_literal: true

# What the portable loop calls besides fibers' waits: the blocks of `watch` and `after`, and the end
# of a `timeout_after`. Made by Scheduler::Portable; each is the target of a timer or of a watch.

module Gyre
  class Scheduler
    module Portable
      # A block to run on the loop, and the handle by which it is called off.
      class Callback
        # @param handles [Hash] where it stands while it is alive, so that `run` goes on
        def initialize(scheduler, handles, block)
          @scheduler = scheduler
          @handles = handles
          @block = block
        end

        # @param registration [Loop::Timers::Timer, Loop::Portable::Watch]
        # @return [self]
        def start(registration)
          @registration = registration
          @handles[self] = true
          self
        end

        # Calls it off. Harmless when it is over already.
        def cancel
          @handles.delete(self)
          @registration.cancel
        end

        # The timer's call.
        def call
          run if @handles.delete(self)
        end

        # The watch's call.
        def ready(events)
          run(events)
        end

        # The watch's call: the descriptor is closed.
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
        # @return [Exception, nil] what is raised, once the time is over
        attr_reader :error

        # @param exception [Array] as for Kernel#raise
        def initialize(inbox, fiber, exception)
          @inbox = inbox
          @fiber = fiber
          @exception = exception
        end

        # The timer's call. It comes again when an exception for the thread came at its end, and
        # when the exception's constructor waits: then the loop goes on, and the block may end
        # meanwhile.
        def call
          return if @sent || @making

          Thread.handle_interrupt(Object => :never) do
            @error ||= make_error
            @inbox.interrupt(@fiber, @error) unless @withdrawn
            @sent = true
          end
        end

        # The block has ended: it must not be raised any more.
        def withdraw
          @withdrawn = true
          Strand.of(@fiber).withdraw(@error) if @error
        end

        private

        # What its constructor raises is raised instead.
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
