# frozen_string_literal: true

# Lets Fiber#raise and Fiber#kill reach a fiber that waits in a scheduler of Gyre's. Ruby would
# transfer control there, and the caller, in no queue, would never run again. Raises the exception
# at the fiber's wait instead, like Scheduler#fiber_interrupt; the caller then continues, as after
# Scheduler#yield. Leaves other fibers to Ruby.

module Gyre
  class Scheduler
    module FiberRaise
      RUBYS_KILL = (Fiber.instance_method(:kill) if Fiber.method_defined?(:kill))
      private_constant :RUBYS_KILL

      def raise(*arguments, **options)
        scheduler = Fiber.scheduler
        return super unless scheduler.is_a?(Scheduler) && scheduler.waiting_in(self)

        scheduler.fiber_interrupt(self, FiberRaise.exception(*arguments, **options))
        scheduler.yield
      end

      # Fiber#kill came with Ruby 3.3.
      if Fiber.method_defined?(:kill)
        def kill
          scheduler = Fiber.scheduler
          return super unless scheduler.is_a?(Scheduler) && scheduler.waiting_in(self)

          scheduler.fiber_interrupt(self, nil)
          scheduler.yield
          self
        end
      end

      # For the engines: Fiber#kill at the fiber's wait. If the fiber has resumed a waiting fiber,
      # raises a Stop in that one, and ends the fiber as soon as it continues.
      def self.end_here(fiber)
        begin
          RUBYS_KILL.bind_call(fiber)
        rescue RuntimeError, TypeError
          nil
        end
        Kernel.raise Stop, "a fiber that resumes this one was killed"
      end

      # Returns the exception that Kernel#raise would raise, with the backtrace of the wait unless
      # given. From Ruby 4.0 on an exception without a cause gets one: the error that the caller is
      # handling, unless the exception has caused that error.
      def self.exception(*arguments, **options)
        given = options.slice(:cause)
        error = build(*arguments, **options.except(:cause))
        given.empty? && (RUBY_VERSION < "4" || $!.nil?) ? error : with_cause(error, given)
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

      # Only a raise sets a cause; the backtrace stays. Without `cause` in `given`, Ruby chooses.
      def self.with_cause(error, given)
        backtrace = error.backtrace
        Kernel.raise(error, **given)
      rescue error.class => raised
        raise unless raised.equal?(error)

        error.tap { error.set_backtrace(backtrace) }
      end
      private_class_method :build, :with_cause
    end

    Fiber.prepend(FiberRaise)
  end
end
