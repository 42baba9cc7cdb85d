# frozen_string_literal: true

# A value that any thread sets once and that any task or thread can await. If a block makes the
# value, a task is simpler.

require "gyre/errors"
require "gyre/sync/waiters"

module Gyre
  # Any thread may call its methods.
  class Promise
    def initialize
      @waiters = Waiters.new(self)
      @token = [true] # Array#pop is one step for all threads
      @state = :pending
    end

    # Sets the value, unless the promise is settled.
    # @param value [Object]
    # @return [Boolean] whether it was set
    def resolve(value = nil) = settle(:resolved, value)

    # Sets an exception, unless the promise is settled.
    # @param error [Exception, Class, String] as for `raise`
    # @return [Boolean] whether it was set
    def reject(error)
      error = RuntimeError.new(error) if error.is_a?(String)
      raise ArgumentError, "reject needs an exception, a class of them or a String, not #{error.inspect}" unless error.respond_to?(:exception)

      settle(:rejected, error.exception)
    end

    # Sets the block's result or exception.
    # @return [Object] the block's value
    # @raise [Exception] the block's
    def fulfill
      value = yield
      done = true
      value
    rescue Exception => error # rubocop:disable Lint/RescueException -- it is raised again
      reject(error)
      raise
    ensure
      resolve(value) if done || pending? # also after a `throw` or `break`
    end

    # Waits for the value.
    # @param timeout [Numeric, nil] seconds
    # @return [Object]
    # @raise [Exception] the rejection
    # @raise [TimeoutError] not settled in time
    def wait(timeout: nil)
      Clock.within(timeout) do |left|
        break unless pending?

        @waiters.wait(left) { pending? }
      end
      raise TimeoutError, "no value after #{timeout} s" if pending?
      raise @value if @state == :rejected

      @value
    end

    # @return [Object, Exception, nil] value or exception, without waiting
    def value = (@value unless pending?)

    # @return [Boolean]
    def pending? = @state == :pending

    # @return [Boolean] whether it has a value
    def resolved? = @state == :resolved
    alias completed? resolved?

    # @return [Boolean] whether it has an exception
    def rejected? = @state == :rejected
    alias failed? rejected?

    # @return [Integer] number of waiters
    def waiting = @waiters.size

    # @return [String] for print_hierarchy
    # @api private
    def label = "a promise"

    # @return [String]
    def inspect = "#<#{self.class} #{@state}, #{waiting} waiting>"

    private

    def settle(state, value)
      Thread.handle_interrupt(SpinLock::NEVER) do # or it could stay pending
        next false unless @token.pop

        @value = value
        @state = state
        @waiters.wake_all
        true
      end
    end
  end
end
