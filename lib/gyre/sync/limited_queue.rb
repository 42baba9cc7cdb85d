# frozen_string_literal: true

# A Gyre::Queue with a limit: a push into a full queue waits, so that fast producers cannot overrun
# slow consumers.

require "gyre/sync/queue"

module Gyre
  # Holds up to {#limit} items. Any thread may call its methods.
  class LimitedQueue < Queue
    # @return [Integer]
    attr_reader :limit

    # @param limit [Integer] at least 1
    # @param items [#each] first items, within the limit
    def initialize(limit, items = [])
      raise ArgumentError, "limit must be a positive Integer, not #{limit.inspect}" unless limit.is_a?(Integer) && limit.positive?
      raise ArgumentError, "#{items.count} items are more than the limit of #{limit}" if items.count > limit

      super()
      @limit = limit
      @items = Thread::SizedQueue.new(limit)
      @pushers = Waiters.new(self)
      items.each { |item| @items.push(item) }
    end

    # Adds an item; waits for room.
    # @param item [Object]
    # @return [self]
    # @raise [ClosedQueueError] it is closed, or gets closed
    def push(item)
      @pushers.wait { full? && !closed? } until push_now(item)
      @poppers.wake
      self
    rescue Exception # rubocop:disable Lint/RescueException -- it is raised again
      pass_on
      raise
    end
    alias << push

    # @return [Boolean]
    def full? = @items.size >= @limit

    # @return [Integer] number of waiters in {#push}
    def waiting_to_push = @pushers.size

    # @return [String] for print_hierarchy
    # @api private
    def label = full? ? "room in a queue of #{@limit}" : super

    # (see Queue#close) Raises ClosedQueueError in a waiting {#push}.
    def close
      super
      @pushers.wake_all
      self
    end

    private

    def push_now(item)
      raise ClosedQueueError, "queue closed" if closed? # a full one would report that it is full
      return false if full?

      @items.push(item, true)
      true
    rescue ThreadError # full: another thread was faster
      false
    end

    def taken = @pushers.wake

    def pass_on
      super
      @pushers.wake unless full?
    end
  end
end
