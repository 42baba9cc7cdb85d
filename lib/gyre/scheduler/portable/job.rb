# frozen_string_literal: true

# A job in a fiber of its own. Tells Scheduler::Portable::Fibers when the job begins and ends.
# Reports exceptions.

module Gyre
  class Scheduler
    module Portable
      class Job
        attr_reader :fiber

        def initialize(fibers, scheduler, callable, arguments, options)
          @fibers = fibers
          @scheduler = scheduler
          @callable = callable
          @arguments = arguments
          @fiber = PooledFiber.new(**{ blocking: false }, **options) do
            run while @callable # again if an exception for the thread came before the job had begun
            @fibers.pass_on
          end
        end

        private

        def run
          @fibers.started(@fiber)
          callable = @callable
          arguments = @arguments
          @callable = @arguments = nil
          callable.call(*arguments)
        rescue Stop
          nil # was asked to end
        rescue SystemExit, SignalException => error
          @fibers.fail(error)
        rescue Exception => error # rubocop:disable Lint/RescueException -- reported
          report(error)
        ensure
          @fibers.finished(@fiber)
        end

        def report(error)
          @scheduler.fiber_failed(error, @fiber)
        rescue SystemExit, SignalException => broken
          @fibers.fail(broken)
        rescue Exception # rubocop:disable Lint/RescueException -- $stderr is closed, for example: the report has no reader
          nil
        end
      end
    end
  end
end
