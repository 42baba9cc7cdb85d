# frozen_string_literal: true

# Limits simultaneous holders: connections to a host, queries, open files. First come, first served.
# Records holders only for the search for deadlocks. A place taken for a block is held by the
# block's fiber. A place taken without a block counts as its taker's, until a fiber gives back a
# place that another has taken; from then on the holders are unknown.

require "gyre/sync/spin_lock"
require "gyre/task"

module Gyre
  # Any thread may call its methods, but {#async} needs a task.
  class Semaphore
    # @return [Integer]
    attr_reader :limit

    # @param limit [Integer] places; at least 1
    def initialize(limit = 1)
      check(limit)
      @limit = limit
      @count = 0
      @waiting = {}.compare_by_identity
      @lock = SpinLock.new
      @holders = Hash.new(0).compare_by_identity # fiber => number of blocks
      @takers = Hash.new(0).compare_by_identity # task or fiber => how many places; each changes its own entry only
      @lent = false # whether a fiber gave back a place that another one had taken
    end

    # Takes a place; waits if all are taken. If there is a block, gives the place back at the
    # block's end.
    # @return [Object, self] the block's value; self if no block is given
    def acquire(&block)
      return with_place(Fiber.current, nil, &block) if block

      kept = false
      with_place(nil, -> { kept }) do
        @takers[taker] += 1 unless @lent
        kept = true
      end
      self
    end

    # Gives a place back.
    # @return [self]
    # @raise [ThreadError] no place is taken
    def release
      @lock.synchronize { hand_on }
      @takers.key?(taker) ? forget(@takers, taker) : lend
      self
    end

    # Starts a task that holds a place while it runs. Waits for the place first, which slows down a
    # loop that starts many tasks.
    # @param name [String, nil] as for {Task#async}
    # @param parent [Task, #async]
    # @param transient [Boolean]
    # @yieldparam task [Task]
    # @return [Task]
    def async(name = nil, parent: Task.current, transient: false, &block)
      raise ArgumentError, "async needs a block" unless block

      started = false
      with_place(nil, -> { started }) do
        parent.async(name, transient: transient) do |task|
          started = true
          @holders[noted = Fiber.current] += 1
          block.call(task)
        ensure
          @lock.synchronize { give_up(noted) if started }
        end
      end
    end

    # @return [Integer] taken places
    def count = @count

    # @return [Boolean] whether {#acquire} would wait
    def blocking? = @count >= @limit

    # Sets the number of places. If more are taken, gives out no place until enough have come back.
    # @param limit [Integer] at least 1
    def limit=(limit)
      check(limit)
      @lock.synchronize do
        @limit = limit
        while @count < @limit && !@waiting.empty?
          @count += 1
          @waiting.shift.first.wake
        end
      end
    end

    # @return [String] for print_hierarchy
    # @api private
    def label = "a place in a semaphore of #{@limit}"

    # @return [String]
    def inspect = "#<#{self.class} #{@count} of #{@limit} taken, #{waiting} waiting>"

    # @return [Integer] number of waiters
    def waiting = @waiting.size

    # @return [Array<Fiber>, nil] nil if unknown
    # @api private
    def holders
      return if @lent || @holders.values.sum + @takers.values.sum != @count

      fibers = @holders.keys + @takers.keys.map { |one| one.is_a?(Task) ? one.fiber : one }
      fibers.uniq if fibers.all?
    end

    # @return [Boolean] whether a place was taken without a block, for any thread to give back
    # @api private
    def lent? = @lent || !@takers.empty?

    private

    def check(limit)
      return if limit.is_a?(Integer) && limit.positive?

      raise ArgumentError, "limit must be a positive Integer, not #{limit.inspect}"
    end

    # Runs the block with a place, then gives the place back unless `kept` returns true. Takes and
    # gives back under the lock, which defers the thread's exceptions. Records `holder` meanwhile.
    def with_place(holder, kept)
      held = waiter = noted = nil
      @lock.synchronize do
        if @count < @limit # while there are waiters, all places are taken
          @count += 1
          held = true
        else
          @waiting[waiter = Waiter.new(self)] = true
        end
      end
      waiter&.park
      @holders[noted = holder] += 1 if holder
      yield
    ensure
      @lock.synchronize do
        held ||= waiter && !@waiting.delete(waiter)
        give_up(noted) if held && !kept&.call
      end
    end

    # Gives back a place and forgets its recorded holder. Requires the lock.
    def give_up(holder)
      forget(@holders, holder) if holder
      hand_on
    end

    # Requires the lock.
    def hand_on
      raise ThreadError, "release of a semaphore that is not held" if @count.zero?

      waiter, = @waiting.shift if @count <= @limit
      waiter ? waiter.wake : @count -= 1
    end

    def forget(counts, key) = counts[key] > 1 ? counts[key] -= 1 : counts.delete(key)

    # @return [Task, Fiber]
    def taker = Task.current? || Fiber.current

    # Stops recording takers, as a fiber has given back a place that another had taken.
    def lend
      @lent = true
      @takers.clear
    end
  end
end
