# frozen_string_literal: true

# Runs tasks of the gem Async on a Gyre::Scheduler. `Async { }`, `Sync { }` and gems built on Async
# (async-http, io-endpoint) treat the thread's scheduler like Async's: they make it the parent of
# the first task, and enter, suspend and interrupt fibers by it. Requires nothing of Async.

module Gyre
  class Scheduler
    # The methods of Async's scheduler that Async's tasks call.
    class AsyncGuests
      # The timer that `with_timeout` yields; its time cannot be moved.
      Timeout = Struct.new(:time) do
        def now = Clock.now

        def duration = time - now
      end

      module Host
        # Fiber.schedule in an Async task makes an Async task.
        def fiber(*arguments, **options, &block) = options.empty? && ::Async::Task.current? ? async(*arguments, &block).fiber : super

        # Raises an exception at a fiber's wait. The first argument is the fiber, the others are
        # those of Kernel#raise.
        def raise(*arguments, **options)
          fiber, *exception = arguments
          return super unless fiber.is_a?(Fiber)

          fiber_interrupt(fiber, exception_for(exception, options))
          self.yield unless Fiber.current.blocking? # Async expects it to be raised by now
        end

        private

        def exception_for(arguments, options)
          Kernel.raise(*arguments, **options)
        rescue Exception => error # rubocop:disable Lint/RescueException -- it is the one
          error
        end
      end

      def initialize(scheduler)
        @scheduler = scheduler
      end

      # Called for an Async task that has no parent.
      def add_child(child) = async_root.__send__(:add_child, child)

      def async(*arguments, **options, &block)
        ::Async::Task.new(::Async::Task.current? || async_root, **options, &block).tap { |task| task.run(*arguments) }
      end

      # Enters a fiber; returns when the fiber waits. A new Async task runs in a pooled fiber. A
      # task started in a Gyre::Task becomes its child and ends with it.
      def resume(fiber, *arguments)
        return resume_new(fiber, arguments) if fiber.backtrace.empty?

        @scheduler.unblock(:async, fiber)
        @scheduler.yield
      end

      # Suspends the fiber until {#resume} or {#push}.
      def transfer = @scheduler.block(:async, nil)

      # Soon enters a fiber, or calls `transfer` of any other object.
      def push(one)
        return @scheduler.unblock(:async, one) if one.is_a?(Fiber)

        @scheduler.spawn do
          @scheduler.yield
          one.transfer if one.alive?
        end
      end

      def with_timeout(duration, exception = ::Async::TimeoutError, message = "execution expired", &block)
        timeout = Timeout.new(Clock.now + duration)
        @scheduler.timeout_after(duration, exception, message) { block.arity.zero? ? yield : yield(timeout) }
      end

      # For Async::Idler.
      def load = 0.0

      private

      # A transient task becomes a child of the root and ends with the run, as Async moves such a
      # task to its grandparent when its parent ends.
      def resume_new(fiber, arguments)
        guest = fiber.async_task if fiber.respond_to?(:async_task)
        transient = guest&.transient? || false
        host = host_for(transient)
        return @scheduler.spawn { fiber.resume(*arguments) } unless host

        host.async(guest&.annotation, transient: transient) do |task|
          fiber.instance_variable_set(:@gyre_host, task)
          fiber.resume(*arguments)
          nil
        end
      end

      def host_for(transient)
        host = (Task.current? || Fiber.current.instance_variable_get(:@gyre_host)) if defined?(Task)
        if transient
          host = host.parent while host&.parent
          host ||= @scheduler.runs.last&.root
        end
        host unless host&.finished?
      end

      def async_root
        @async_root ||= begin
          scheduler = @scheduler.extend(Host)
          ::Async::Node.new.tap do |root|
            %i[async resume transfer push with_timeout load block unblock io_wait kernel_sleep yield closed?].each do |name|
              root.define_singleton_method(name) { |*arguments, **options, &block| scheduler.public_send(name, *arguments, **options, &block) }
            end
          end
        end
      end
    end
  end
end
