# frozen_string_literal: true

# The gem rack-timeout raises in the thread that runs a request that takes too long. Requests of a
# Gyre server share a thread, so that would end the server. Here it raises in the request's fiber,
# by the scheduler's timer. Gyre::Web::Server calls this before it listens. Nothing is loaded for
# it: without the gem nothing is done.

require "gyre/scheduler"

module Gyre
  module Web
    # Has Rack::Timeout raise at the present wait of a request.
    module RackTimeout
      # What the gem takes for the thread. An exception for the scheduler's timeout, which is made
      # when the time is over.
      class Fault
        # @param on_timeout [Proc] is called with what to raise in; it decides on the exception
        def initialize(on_timeout)
          @on_timeout = on_timeout
        end

        # @return [Exception]
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
        # @param seconds [Numeric, nil] nil and 0: no limit
        # @return what the block returned
        def timeout(seconds, &block)
          scheduler = Fiber.current_scheduler
          return super if seconds.nil? || seconds.zero? || !scheduler.is_a?(Scheduler)

          scheduler.timeout_after(seconds, Fault.new(@on_timeout), "execution expired") { block.call }
        end
      end

      # @return [void]
      def self.apply
        return unless defined?(::Rack::Timeout::Scheduler::Timeout) && ::Rack::Timeout::Scheduler::Timeout.method_defined?(:timeout)

        ::Rack::Timeout::Scheduler::Timeout.prepend(ByFiber)
      end
    end
  end
end
