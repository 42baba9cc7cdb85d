# frozen_string_literal: true

# Makes the gem rack-timeout raise in the late request's fiber by the scheduler's timer; raising in
# the thread would end the server. Called by Gyre::Web::Server before it listens. Loads nothing.

require "gyre/scheduler"

module Gyre
  module Web
    module RackTimeout
      # Replaces the gem's thread: raises by the scheduler's timeout.
      class Fault
        # Calls `on_timeout` with an object to raise in; the gem chooses the error.
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
        # A limit of nil or 0 means none.
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
