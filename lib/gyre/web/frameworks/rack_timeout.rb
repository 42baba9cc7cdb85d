# frozen_string_literal: true

# Makes the gem rack-timeout raise in the fiber of the late request, by the scheduler's timer. By
# itself the gem raises in the thread, which would end the server. Called by Gyre::Web::Server.
# Loads nothing.

require "gyre/scheduler"

module Gyre
  module Web
    module RackTimeout
      # Stands for the thread in which the gem raises: stores the error for the scheduler's timeout.
      class Fault
        # `on_timeout`: the gem's callable, which gets this object as the thread and calls {#raise}.
        def initialize(on_timeout)
          @on_timeout = on_timeout
        end

        def exception(*)
          @on_timeout.call(self)
          @exception || RuntimeError.new("execution expired")
        end

        # Takes the arguments of Thread#raise.
        def raise(error, message = error.message) = @exception = error.exception(message)
      end

      # Prepended to Rack::Timeout::Scheduler::Timeout.
      module ByFiber
        # Treats nil and 0 as no limit.
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
