# frozen_string_literal: true

# A signal wakes all waiting tasks and gives them a value. If no task waits, the signal is lost,
# unlike an item of a Gyre::Queue.

require "gyre/sync/spin_lock"
require "gyre/sync/waiter"

module Gyre
  # Any thread may call its methods.
  class Condition
    def initialize
      @waiting = {}.compare_by_identity # no lock needed, see waiters.rb
    end

    # Waits for the next signal.
    # @param timeout [Numeric, nil] seconds
    # @return [Object, nil] the signal's value; nil after the timeout
    def wait(timeout: nil)
      waiter = Waiter.new(self)
      @waiting[waiter] = true
      waiter.park(timeout)
      waiter.value
    ensure
      @waiting.delete(waiter)
    end

    # Wakes all present waiters.
    # @param value [Object] for their {#wait}
    # @return [self]
    def signal(value = nil)
      Thread.handle_interrupt(SpinLock::NEVER) do # or a removed waiter may not be woken
        @waiting.size.times do
          waiter, = @waiting.shift
          waiter&.wake(value)
        end
      end
      self
    end

    # @return [Integer] number of waiters
    def waiting = @waiting.size
    alias waiting_count waiting

    # @return [Boolean]
    def empty? = @waiting.empty?

    # @return [String] for print_hierarchy
    # @api private
    def label = "a condition"

    # @return [String]
    def inspect = "#<#{self.class} #{waiting} waiting>"
  end

  # Async's name for this class. Woken tasks run once the signalling task waits.
  Notification = Condition
end
