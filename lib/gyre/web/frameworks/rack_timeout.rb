# frozen_string_literal: true

# Makes the gem rack-timeout raise in the late request's fiber, by the scheduler's timer. It raises
# in the request's thread, which would end a Gyre server. Called by Gyre::Web::Server before it
# listens. Loads nothing, and does nothing without the gem.

require "gyre/scheduler"

module Gyre
  module Web
    module RackTimeout
      # Stands for the gem's thread: makes the exception of the scheduler's timeout when the time is
      # over.
      class Fault
        # `on_timeout` is called with what to raise in; it decides on the exception.
        def initialize(on_timeout)
          @on_timeout = on_timeout
        end

        def exception(*)
          @on_timeout.call(self)
          @exception || RuntimeError.new("execution expired")
        end

        # As Thread#raise.
        def raise(error, message = error.message)
          @exception = error.exception(message)
        end
      end

      # Prepended to Rack::Timeout::Scheduler::Timeout.
      module ByFiber
        # nil and 0: no limit.
        def timeout(seconds, &block)
          scheduler = Fiber.current_scheduler
          return super if seconds.nil? || seconds.zero? || !scheduler.is_a?(Scheduler)

          scheduler.timeout_after(seconds, Fault.new(@on_timeout), "execution expired") { block.call }
        end
      end

      def self.apply
        return unless defined?(::Rack::Timeout::Scheduler::Timeout) && ::Rack::Timeout::Scheduler::Timeout.method_defined?(:timeout)

        ::Rack::Timeout::Scheduler::Timeout.prepend(ByFiber)
      end
    end
  end
end
