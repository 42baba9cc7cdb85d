# frozen_string_literal: true

# Gyre::Job: to which fiber or thread the state of the running code belongs. A job is what a pooled
# fiber runs: a request, a task, the code of a WebSocket. Frameworks ask here (Web::Isolation) where
# they would ask for the current fiber, so that fibers that a job makes (Enumerator#next, the
# resolvers of GraphQL) have the job's state. ext/gyre/fiber/scheduler.c has `current` and `forget`.

require_relative "../loop/backends"

module Gyre
  # The owner of the running code's state.
  module Job
    # Whether Ruby has fiber storage.
    # @api private
    STORAGE = Fiber.method_defined?(:storage)

    class << self
      # @!method current
      #   Returns the owner: the fiber that runs the job, also within fibers that the job has
      #   resumed; outside of jobs the thread. Under the scheduler of another gem, the current fiber.
      #   @return [Fiber, Thread]

      # @!method forget(keys, storage)
      #   Clears the current fiber's locals, storage and variables.
      #   @param keys [Array<Symbol>] of the locals
      #   @param storage [Hash, nil]
      #   @return [void]
      #   @api private

      # @return [#wrap, nil] runs events: Rails' executor; nil: events just run
      # @api private
      attr_accessor :executor

      # Runs an event of a WebSocket's handler or a live page, or work in a thread of a pool. Leaves
      # no state for what comes next, which may be another user's.
      # @param executor [#wrap, nil]
      # @api private
      def event(executor = @executor)
        executor ? executor.wrap { yield } : yield
      ensure
        clear
      end

      # Ends the current fiber's state, before the fiber or its thread goes on with another's work.
      # @api private
      def clear = forget(Thread.current.keys, (Fiber.current.storage if STORAGE))

      # Returns the owner under a scheduler that is not native.
      # @api private
      def of(scheduler) = scheduler.is_a?(Scheduler) ? scheduler.job || Thread.current : Fiber.current

      unless Loop.native?
        def current = Fiber.scheduler ? of(Fiber.scheduler) : Thread.current

        def forget(keys, storage)
          keys.each { |key| Thread.current[key] = nil }
          storage&.each_key { |key| Fiber[key] = nil }
        end
      end
    end
  end
end
