# frozen_string_literal: true

# Tasks wait for something to happen; the caller that makes it happen wakes them all and hands them
# a value. Remembers nothing: a signal for which no task waits is lost. Where that matters, a
# Gyre::Queue is the better choice.

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

    # Wakes every task and thread that waits now.
    # @param value [Object] what their {#wait} returns
    # @return [self]
    def signal(value = nil)
      Thread.handle_interrupt(SpinLock::NEVER) do # else one that was taken out would not be woken
        @waiting.size.times do
          waiter, = @waiting.shift
          waiter&.wake(value)
        end
      end
      self
    end

    # @return [Integer] how many wait
    def waiting
      @waiting.size
    end
    alias waiting_count waiting

    # @return [Boolean] whether no task or thread waits
    def empty?
      @waiting.empty?
    end

    # @return [String] what its {#wait} waits for, in print_hierarchy
    # @api private
    def label
      "a condition"
    end

    # @return [String]
    def inspect
      "#<#{self.class} #{waiting} waiting>"
    end
  end

  # Async's word. The woken tasks run when the signalling one waits, never at once, so it is the
  # same.
  Notification = Condition
end
