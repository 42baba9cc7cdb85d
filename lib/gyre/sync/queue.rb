# frozen_string_literal: true

# A queue between tasks, and between threads and tasks. A Thread::Queue holds the items,
# Gyre::Waiters the waiters, as Thread::Queue#pop has no timeout before Ruby 3.2 and loses the
# wake-up of a stopped receiver. Never blocks the loop.

require "gyre/sync/waiters"

module Gyre
  # First in, first out, unlimited. Any thread may call its methods.
  class Queue
    include Enumerable

    # @param items [#each] first items
    def initialize(items = [])
      @items = Thread::Queue.new
      @poppers = Waiters.new(self)
      items.each { |item| @items.push(item) }
    end

    # Adds an item; never waits.
    # @param item [Object]
    # @return [self]
    # @raise [ClosedQueueError]
    def push(item)
      @items.push(item)
      @poppers.wake
      self
    end
    alias << push

    # Adds items.
    # @param items [Array<Object>]
    # @return [self]
    def enqueue(*items)
      items.each { |item| push(item) }
      self
    end

    # Takes the oldest item; waits if there is none.
    # @param timeout [Numeric, nil] seconds
    # @return [Object, nil] nil after the timeout, or if closed and empty
    def pop(timeout: nil) = take(timeout) { return nil }
    alias dequeue pop

    # Takes items until the queue is closed and empty.
    # @yieldparam item [Object]
    # @return [self]
    def each
      return enum_for(:each) unless block_given?

      yield(take(nil) { return self }) while true
    end

    # Starts a task for each item until the queue is closed and empty. If `parent` is a {Semaphore},
    # it limits the running tasks.
    # @param parent [Task, Semaphore, Barrier, #async]
    # @param options [Hash] for {Task#async}
    # @yieldparam item [Object]
    # @yieldparam task [Task]
    # @return [self]
    def async(parent: Task.current, **options)
      raise ArgumentError, "async needs a block" unless block_given?

      each { |item| parent.async(**options) { |task| yield item, task } }
    end

    # Ends pushing; remaining items can be taken. A waiting {#pop} returns nil.
    # @return [self]
    def close
      @items.close
      @poppers.wake_all
      self
    end

    # @return [Boolean]
    def closed? = @items.closed?

    # @return [Boolean]
    def empty? = @items.empty?

    # @return [Integer]
    def size = @items.size
    alias length size

    # @return [Integer] number of waiters in {#pop}
    def waiting = @poppers.size
    alias waiting_count waiting

    # @return [String] for print_hierarchy
    # @api private
    def label = "a queue to be filled"

    # @return [String]
    def inspect = "#<#{self.class} #{"closed, " if closed?}#{size} in it, #{waiting} waiting>"

    private

    # Returns an item, or the block's value if the queue is closed or the time is over.
    def take(timeout, priority = 0)
      deadline = timeout && (Clock.now + timeout)
      while true # not `loop`, which would rescue ClosedQueueError
        begin
          return @items.pop(true).tap { taken } unless @items.empty?
        rescue ThreadError # another thread was faster
          next
        end
        return yield if @items.closed?

        left = deadline && (deadline - Clock.now)
        return yield if left && left <= 0

        @poppers.wait(left, priority) { @items.empty? && !@items.closed? }
      end
    rescue Exception # rubocop:disable Lint/RescueException -- it is raised again
      pass_on
      raise
    end

    # Called when an item has left the queue.
    def taken; end

    # Passes on an unused wake-up, as an exception for the thread may come at any line.
    def pass_on = (@poppers.wake unless @items.empty?)
  end
end
