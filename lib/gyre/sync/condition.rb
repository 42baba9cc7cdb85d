# frozen_string_literal: true

# Tasks wait for an event, which wakes them all and gives them a value. Remembers nothing: a signal
# without waiters is lost. Gyre::Queue remembers instead.

require "gyre/sync/spin_lock"
require "gyre/sync/waiter"

module Gyre
  # Every method may be called from any thread.
  class Condition
    def initialize
      @waiting = {}.compare_by_identity # no lock needed, see waiters.rb
    end

    # Waits for the next signal.
    # @param timeout [Numeric, nil] seconds
    # @return [Object, nil] the signal's value; nil when the time is over
    def wait(timeout: nil)
      waiter = Waiter.new(self)
      @waiting[waiter] = true
      waiter.park(timeout)
      waiter.value
    ensure
      @waiting.delete(waiter)
    end

    # Wakes all tasks and threads that wait now.
    # @param value [Object] what their {#wait} returns
    # @return [self]
    def signal(value = nil)
      Thread.handle_interrupt(SpinLock::NEVER) do # otherwise a waiter taken out would not be woken
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

    # @return [Boolean] whether there are no waiters
    def empty? = @waiting.empty?

    # @return [String] the name of its {#wait} in print_hierarchy
    # @api private
    def label = "a condition"

    # @return [String]
    def inspect = "#<#{self.class} #{waiting} waiting>"
  end

  # Async's name for it. Woken tasks run when the signalling task waits, never at once.
  Notification = Condition
end
