# frozen_string_literal: true

# Lets Fiber#raise and Fiber#kill reach a fiber that waits in Gyre's scheduler. Ruby would transfer
# to the fiber, and the caller would never run again. This module raises at the fiber's wait, by
# Scheduler#fiber_interrupt, and the caller continues. Leaves other fibers to Ruby.

module Gyre
  class Scheduler
    module FiberRaise
      def raise(*arguments, **options)
        scheduler = Fiber.scheduler
        return super unless scheduler.is_a?(Scheduler) && scheduler.waiting_in(self)

        scheduler.fiber_interrupt(self, FiberRaise.exception(*arguments, **options))
        scheduler.yield
      end

      if Fiber.method_defined?(:kill) # since Ruby 3.3
        def kill
          scheduler = Fiber.scheduler
          return super unless scheduler.is_a?(Scheduler) && scheduler.waiting_in(self)

          scheduler.fiber_interrupt(self, nil)
          scheduler.yield
          self
        end
      end

      # Performs a Fiber#kill for the engines, in the waiting fiber. If `fiber` has resumed the
      # waiting fiber, raises a Stop in the waiting fiber, and `fiber` ends afterwards.
      def self.end_here(fiber)
        begin
          rubys_kill.bind_call(fiber)
        rescue RuntimeError, TypeError
          nil
        end
        Kernel.raise Stop, "a fiber that resumes this one was killed"
      end

      # A constant could not be used in a Ractor.
      def self.rubys_kill
        method = Fiber.instance_method(:kill)
        method = method.super_method until method.owner == Fiber
        method
      end

      # Returns the exception that Kernel#raise would raise. It gets the wait's backtrace unless a
      # backtrace is given. From Ruby 4.0 on its cause is the error that the caller is handling,
      # unless the exception caused that error.
      def self.exception(*arguments, **options)
        given = options.slice(:cause)
        error = build(*arguments, **options.except(:cause))
        given.empty? && (RUBY_VERSION < "4.0" || $!.nil?) ? error : with_cause(error, given)
      end

      def self.build(error = RuntimeError.new("unhandled exception"), *message, **details)
        return RuntimeError.new(error) if error.is_a?(String)
        raise TypeError, "exception class/object expected" unless error.respond_to?(:exception)

        backtrace = message.size > 1 ? message.pop : nil
        message << details unless details.empty?
        exception = error.exception(*message)
        raise TypeError, "exception object expected" unless exception.is_a?(Exception)

        exception = exception.dup if exception.frozen? # as Ruby does, to note where it was raised
        exception.set_backtrace(backtrace) if backtrace
        exception
      end

      # Gives the exception a cause. Raises it for this, as only a raise sets a cause. If no cause
      # is given, Ruby chooses it.
      def self.with_cause(error, given)
        backtrace = error.backtrace
        Kernel.raise(error, **given)
      rescue error.class => raised
        raise unless raised.equal?(error)

        error.tap { error.set_backtrace(backtrace) }
      end
    end

    Fiber.prepend(FiberRaise)

    # Thread#raise into a thread that runs Gyre.run, as a Timeout around Gyre.run does. Ruby raises
    # the exception in the running fiber. If the fiber does not rescue it, Gyre.run raises it. The
    # scheduler records such exceptions before they are sent.
    module ThreadRaise
      def raise(*arguments, **options)
        scheduler = thread_variable_get(:gyre_scheduler)
        return super if scheduler.nil? || scheduler.runs.empty? || equal?(Thread.current)

        error = FiberRaise.exception(*arguments, **options)
        scheduler.note_for_thread(error)
        RUBY_VERSION < "4.0" ? super(error) : super(error, cause: error.cause) # else the caller's present error is
      end
    end

    Thread.prepend(ThreadRaise)
  end
end
