# frozen_string_literal: true

# Tasks of the gem Async on a Gyre::Scheduler. `Async { }`, `Sync { }` and what is built on Async
# (async-http, io-endpoint) take the thread's scheduler for one of Async's: for the parent of the
# first task, and for the means to enter, suspend and interrupt fibers. Here is what they ask for,
# which a Gyre::Scheduler passes on; requires nothing of Async, and nothing else of Gyre calls it.

module Gyre
  class Scheduler
    # What Async's tasks ask of one scheduler.
    class AsyncGuests
      # Of a `with_timeout`: its time is set once.
      Timeout = Struct.new(:time) do
        def now
          Clock.now
        end

        def duration
          time - now
        end
      end

      # Added to a scheduler that has such tasks.
      module Host
        # Fiber.schedule in a task of Async's makes a task of Async's.
        # @return [Fiber]
        def fiber(*arguments, **options, &block)
          options.empty? && ::Async::Task.current? ? async(*arguments, &block).fiber : super
        end

        # @overload raise(fiber, exception, message = nil, cause: nil)
        #   Raises in another fiber, at its wait.
        # @overload raise(...)
        #   Kernel#raise.
        def raise(*arguments, **options)
          fiber, *exception = arguments
          return super unless fiber.is_a?(Fiber)

          fiber_interrupt(fiber, exception_for(exception, options))
          self.yield unless Fiber.current.blocking? # Async counts on it to have been raised
        end

        private

        def exception_for(arguments, options)
          Kernel.raise(*arguments, **options)
        rescue Exception => error # rubocop:disable Lint/RescueException -- it is the one
          error
        end
      end

      # @param scheduler [Scheduler]
      def initialize(scheduler)
        @scheduler = scheduler
      end

      # A task of Async's has no parent but the scheduler.
      # @param child [Async::Node]
      def add_child(child)
        async_root.__send__(:add_child, child)
      end

      # Starts a task of Async's.
      # @return [Async::Task]
      def async(*arguments, **options, &block)
        ::Async::Task.new(::Async::Task.current? || async_root, **options, &block).tap { |task| task.run(*arguments) }
      end

      # Enters a fiber; the caller goes on when that one waits. A new one runs inside of a fiber of
      # ours: below the calling Gyre::Task, if there is one, so that it ends with it.
      # @param fiber [Fiber]
      def resume(fiber, *arguments)
        return resume_new(fiber, arguments) if fiber.backtrace.empty?

        @scheduler.unblock(:async, fiber)
        @scheduler.yield
      end

      # Suspends the current fiber until {#resume} or {#push}.
      def transfer
        @scheduler.block(:async, nil)
      end

      # Enters a fiber soon, or calls `transfer` of something else.
      # @param one [Fiber, #alive?, #transfer]
      def push(one)
        return @scheduler.unblock(:async, one) if one.is_a?(Fiber)

        @scheduler.spawn do
          @scheduler.yield
          one.transfer if one.alive?
        end
      end

      # @param duration [Numeric] seconds
      # @yieldparam timeout [Timeout]
      def with_timeout(duration, exception = ::Async::TimeoutError, message = "execution expired", &block)
        timeout = Timeout.new(Clock.now + duration)
        @scheduler.timeout_after(duration, exception, message) { block.arity.zero? ? yield : yield(timeout) }
      end

      # @return [Float] how busy the loop is, which Async::Idler asks
      def load
        0.0
      end

      private

      # A transient one ends with the whole run, for Async hands it on to the parent's parent when
      # its parent ends.
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

      # @return [Task, nil]
      def host_for(transient)
        host = (Task.current? || Fiber.current.instance_variable_get(:@gyre_host)) if defined?(Task)
        if transient
          host = host.parent while host&.parent
          host ||= @scheduler.runs.last&.root
        end
        host unless host&.finished?
      end

      # The parent of all.
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
