# frozen_string_literal: true

# Thread#raise into a thread that is in a Gyre.run, as Timeout around it does. Ruby raises the
# exception in the fiber that runs at that moment, which may be any task's. A task that computes may
# rescue it there; what a task lets out was meant for the thread, and is raised by Gyre.run. So the
# scheduler notes each such exception before it is sent.

module Gyre
  class Scheduler
    # Prepended to Thread.
    module ThreadRaise
      def raise(*arguments, **options)
        scheduler = thread_variable_get(:gyre_scheduler)
        return super if scheduler.nil? || scheduler.runs.empty? || equal?(Thread.current)

        error = FiberRaise.exception(*arguments, **options)
        scheduler.note_for_thread(error)
        RUBY_VERSION < "4" ? super(error) : super(error, cause: error.cause) # else the caller's present error is
      end
    end

    Thread.prepend(ThreadRaise)
  end
end
