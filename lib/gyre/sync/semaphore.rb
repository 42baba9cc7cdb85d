# frozen_string_literal: true

# So many at once and no more: connections to one host, queries at one database, files open. First
# come, first served: a release hands its place to the longest waiter. Handles tasks only to start
# them (`async`), and remembers the holders of its places only for the search for deadlocks. A
# block's holder is its fiber, since only that one gives the place back; without a block it is the
# fiber that took it, unless any other one has ever given a place back.

require "gyre/sync/spin_lock"
require "gyre/task"
require "gyre/sync/waiter"

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
      @lock = SpinLock.new
      @holders = {}.compare_by_identity # fiber => how many blocks
      @takers = {}.compare_by_identity # task or fiber => how many places; each changes its own entry only
      @lent = false # whether a fiber gave back a place that another one had taken
    end

    # Takes a place; waits while there is none. With a block, gives it back when the block ends.
    #
    # @return [Object, self] the block's value; self without a block
    def acquire(&block)
      return with_place(Fiber.current, nil, &block) if block

      kept = false
      with_place(nil, -> { kept }) do
        @takers[taker] = (@takers[taker] || 0) + 1 unless @lent
        kept = true
      end
      self
    end

    # Gives a place back.
    # @return [self]
    # @raise [ThreadError] when none is taken
    def release
      @lock.synchronize { hand_on }
      taker = self.taker
      case count = @takers[taker]
      when nil then lend
      when 1 then @takers.delete(taker)
      else @takers[taker] = count - 1
      end
      self
    end

    # Starts a task that holds a place while it runs; waits for the place first, so that a loop
    # which starts many goes no faster than they end.
    #
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
          noted = nil
          started = true
          holder = Fiber.current
          note(holder) { noted = holder }
          block.call(task)
        ensure
          @lock.synchronize { give_up(noted) if started }
        end
      end
    end

    # @return [Integer] how many places are taken
    def count
      @count
    end

    # @return [Boolean] whether {#acquire} would wait
    def blocking?
      @count >= @limit
    end

    # Sets how many may hold it at once. With more places than before, waiters get them; with fewer,
    # no place is given out until enough have come back.
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

    # @return [Array<Fiber>, nil] the holders of its places; nil when one is unknown
    # @api private
    def holders
      return if @lent || @holders.values.sum + @takers.values.sum != @count

      fibers = @holders.keys + @takers.keys.map { |one| one.is_a?(Task) ? one.fiber : one }
      fibers.uniq if fibers.all?
    end

    # @return [Boolean] whether one of its places was taken without a block: any thread may give it
    #   back
    # @api private
    def lent?
      @lent || !@takers.empty?
    end

    private

    def check(limit)
      return if limit.is_a?(Integer) && limit.positive?

      raise ArgumentError, "limit must be a positive Integer, not #{limit.inspect}"
    end

    # Runs the block with a place, and gives it back unless it is kept by then. A place is taken and
    # noted, and given back, under the lock, where no exception for the thread comes in between.
    # @param holder [Fiber, nil] noted as its holder meanwhile
    # @param kept [#call] asked after the block, however it ended
    def with_place(holder, kept)
      held = waiter = noted = nil
      @lock.synchronize do
        if @count < @limit # waiters come first: while there are some, every place is taken
          @count += 1
          held = true
        else
          @waiting[waiter = Waiter.new(self)] = true
        end
      end
      waiter&.park
      note(holder) { noted = holder } if holder
      yield
    ensure
      @lock.synchronize do
        held ||= waiter && !@waiting.delete(waiter)
        give_up(noted) if held && !kept&.call
      end
    end

    # Needs the lock.
    # @param holder [Fiber, nil] the one that was noted
    def give_up(holder)
      forget(holder) if holder
      hand_on
    end

    # Needs the lock.
    def hand_on
      raise ThreadError, "release of a semaphore that is not held" if @count.zero?

      waiter, = @waiting.shift if @count <= @limit
      waiter ? waiter.wake : @count -= 1
    end

    # @yield at once
    def note(fiber)
      @holders[fiber] = (@holders[fiber] || 0) + 1
      yield
    end

    def forget(fiber)
      count = @holders[fiber]
      count > 1 ? @holders[fiber] = count - 1 : @holders.delete(fiber)
    end

    # @return [Task, Fiber]
    def taker
      Task.current? || Fiber.current
    end

    # Places go from hand to hand: from now on their holders are unknown.
    def lend
      @lent = true
      @takers.clear
    end
  end
end
