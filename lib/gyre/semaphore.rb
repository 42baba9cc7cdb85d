# frozen_string_literal: true

# So many at once and no more: connections to one host, queries at one database, files open. First come, first served: a
# release hands its place to the one who waits longest. Knows tasks only to start them (`async`).

require "gyre/short_lock"
require "gyre/task"
require "gyre/waiter"

module Gyre
  # Every method may be called from any thread; {#async} within a task.
  class Semaphore
    # @return [Integer]
    attr_reader :limit

    # @param limit [Integer] how many may hold it at once; at least 1
    def initialize(limit = 1)
      check(limit)
      @limit = limit
      @count = 0
      @waiting = {}.compare_by_identity
      @lock = ShortLock.new
    end

    # Takes a place; waits while there is none. With a block, gives it back when the block ends.
    #
    # @return [Object, self] the block's value; self without a block
    def acquire
      wait_for_place unless @lock.synchronize { take_place }
      return self unless block_given?

      begin
        yield
      ensure
        release
      end
    end

    # Gives a place back.
    # @return [self]
    # @raise [ThreadError] when nobody holds one
    def release
      next_one = @lock.synchronize do
        raise ThreadError, "release of a semaphore that nobody holds" if @count.zero?

        waiter, = @waiting.shift if @count <= @limit
        @count -= 1 unless waiter # else its place is handed on
        waiter
      end
      next_one&.wake
      self
    end

    # Starts a task that holds a place while it runs; waits for the place first, so that a loop which starts many goes
    # no faster than they end.
    #
    # @param name [String, nil] as for {Task#async}
    # @param parent [Task, #async]
    # @param transient [Boolean]
    # @yieldparam task [Task]
    # @return [Task]
    def async(name = nil, parent: Task.current, transient: false, &block)
      raise ArgumentError, "async needs a block" unless block

      acquire
      started = false
      parent.async(name, transient: transient) do |task|
        started = true
        block.call(task)
      ensure
        release
      end
    ensure
      release if started == false # no task came of it
    end

    # @return [Integer] how many places are taken
    def count
      @count
    end

    # @return [Boolean] whether {#acquire} would wait
    def blocking?
      @count >= @limit
    end

    # Sets how many may hold it at once. With more places than before, those who wait get them; with fewer, no place is
    # given out until enough have come back.
    # @param limit [Integer] at least 1
    def limit=(limit)
      check(limit)
      @lock.synchronize do
        @limit = limit
        places = [@limit - @count, @waiting.size].min
        @count += places if places.positive?
        Array.new([places, 0].max) { @waiting.shift.first }
      end.each(&:wake)
    end

    # @return [String] what its {#acquire} waits for, in print_hierarchy
    # @api private
    def label
      "a place in a semaphore of #{@limit}"
    end

    # @return [String]
    def inspect
      "#<#{self.class} #{@count} of #{@limit} taken, #{waiting} waiting>"
    end

    # @return [Integer] how many wait for a place
    def waiting
      @waiting.size
    end

    private

    def check(limit)
      return if limit.is_a?(Integer) && limit.positive?

      raise ArgumentError, "limit must be a positive Integer, not #{limit.inspect}"
    end

    def take_place
      return false unless @count < @limit # those who wait come first: while there are some, every place is taken

      @count += 1
      true
    end

    def wait_for_place
      waiter = Waiter.new(self)
      @lock.synchronize { take_place ? waiter.wake : @waiting[waiter] = true }
      held = false
      waiter.park
      held = true
    ensure
      leave(waiter) unless held
    end

    # Stopped, or out of time: perhaps as the place came.
    def leave(waiter)
      waited = @lock.synchronize { @waiting.delete(waiter) }
      release unless waited
    end
  end
end
