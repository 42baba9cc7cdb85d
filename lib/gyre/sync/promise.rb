# frozen_string_literal: true

# A value that any thread sets later, once; any number of tasks and threads may await it. Use a task
# if a block makes the value.

require "gyre/clock"
require "gyre/errors"
require "gyre/sync/spin_lock"
require "gyre/sync/waiters"

module Gyre
  # Every method may be called from any thread.
  class Promise
    def initialize
      @waiters = Waiters.new(self)
      @token = [true] # Array#pop is one step for all threads
      @state = :pending
    end

    # Sets the value. Only the first call of this or {#reject} counts.
    # @param value [Object]
    # @return [Boolean] whether it counted
    def resolve(value = nil) = settle(:resolved, value)

    # Sets an exception instead of a value.
    # @param error [Exception, Class, String] as for `raise`
    # @return [Boolean] whether it counted
    def reject(error)
      error = RuntimeError.new(error) if error.is_a?(String)
      raise ArgumentError, "reject needs an exception, a class of them or a String, not #{error.inspect}" unless error.respond_to?(:exception)

      settle(:rejected, error.exception)
    end

    # Sets what a block returns or raises.
    # @return [Object] the block's value
    # @raise [Exception] what it raised
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
    # @raise [Exception] its rejection
    # @raise [TimeoutError] when there is neither in time
    def wait(timeout: nil)
      Clock.within(timeout) do |left|
        break unless pending?

        @waiters.wait(left) { pending? }
      end
      raise TimeoutError, "no value after #{timeout} s" if pending?
      raise @value if @state == :rejected

      @value
    end

    # @return [Object, Exception, nil] what was set, without waiting or raising
    def value
      @value unless pending?
    end

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

    # @return [String] the name of its {#wait} in print_hierarchy
    # @api private
    def label = "a promise"

    # @return [String]
    def inspect = "#<#{self.class} #{@state}, #{waiting} waiting>"

    private

    def settle(state, value)
      Thread.handle_interrupt(SpinLock::NEVER) do # a half-settled promise stays pending
        next false unless @token.pop

        @value = value
        @state = state
        @waiters.wake_all
        true
      end
    end
  end
end
