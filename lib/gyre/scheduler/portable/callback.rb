# frozen_string_literal: true

# What the portable loop calls besides fibers' waits: the blocks of `watch` and `after`, and the end of a `timeout_after`.
# Made by Scheduler::Portable; each is the target of a timer or of a watch.

module Gyre
  class Scheduler
    class Portable < Scheduler
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
          raise # ends whoever drives the loop
        rescue Exception => error # rubocop:disable Lint/RescueException -- the loop goes on
          @scheduler.report(error, nil)
        end
      end

      # The end of a timeout_after.
      class Expiry
        def initialize(fibers, fiber, error_class, message)
          @fibers = fibers
          @fiber = fiber
          @error_class = error_class
          @message = message
        end

        # The timer's call. It comes again when an exception for the thread came during the first one.
        def call
          return if @told

          @error ||= @error_class.exception(@message)
          @fibers.interrupt(@fiber, @error)
          @told = true
        end

        # The block has ended: it must not be raised any more.
        def withdraw
          Strand.of(@fiber).withdraw(@error) if @error
        end
      end
    end
  end
end
