# frozen_string_literal: true

# Thread#raise into a thread in Gyre.run, as by Timeout around it. Ruby raises in the fiber that
# runs, which may rescue the exception; otherwise Gyre.run raises it. The scheduler records such
# exceptions before they are sent.

module Gyre
  class Scheduler
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
