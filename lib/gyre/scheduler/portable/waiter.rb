# frozen_string_literal: true

# One wait of a fiber (Waiter), and a fiber's state between waits (Strand). Made by
# Scheduler::Portable's hooks, parked and woken by its Fibers.

module Gyre
  class Scheduler
    module Portable
      # A fiber's state. An instance variable of the Fiber holds it, so that it is collected with
      # the fiber and other threads can read it.
      class Strand
        # The wait of this fiber, or of an inner fiber resumed by it (such as a sleeping
        # Enumerator).
        attr_accessor :waiter
        attr_reader :fiber

        def self.of(fiber) = fiber.instance_variable_get(:@gyre_strand) || fiber.instance_variable_set(:@gyre_strand, new(fiber))

        def initialize(fiber)
          @fiber = fiber
        end

        # Any thread may call it.
        def self.known(fiber) = fiber.instance_variable_get(:@gyre_strand)

        # Returns the fiber's wait if an unblock can end it, otherwise nil.
        def block_of(fiber)
          waiter = @waiter
          waiter if waiter&.blocks && waiter.fiber.equal?(fiber)
        end

        # Keeps an exception for the next wait.
        def defer(error) = (@deferred ||= []).push(error)

        # Keeps an unblock that came before the fiber parked. The fiber's next block returns at once
        # if it has the same blocker; a late unblock of an ended wait thus ends no other wait. Calls
        # no method of `blocker`, which may be a hidden object. `signal`: whether the unblock also
        # ends a sleep.
        def keep_early(blocker, signal) = (@early ||= {}.compare_by_identity)[blocker] = signal

        # True if an unblock came before this block.
        def take_early(blocker)
          early = @early or return false
          @early = nil
          early.key?(blocker) || (:sleep.equal?(blocker) && early.value?(true))
        end

        # `source`: the mutex of ConditionVariable#wait, the IO of IO#close, otherwise nil.
        # `signalled`: whether its signal has come.
        attr_accessor :source, :signalled

        def withdraw(error) = @deferred&.delete(error)

        # Takes an exception that the wait may raise.
        def take_deferred(waiter = nil)
          index = @deferred&.index { |error| waiter.nil? || !masked?(error, waiter) } and @deferred.delete_at(index)
        end

        def masked?(error, waiter) = !error.equal?(Inbox::KILL) && InterruptMasks.defer?(waiter.fiber, waiter.base.fiber, error)
      end

      # One wait, called by timers and watches: parked, ready, entered (the fiber runs again), done.
      class Waiter
        OWN_FOLDER = File.dirname(__dir__).freeze
        QUEUE_METHODS = %w[pop shift deq push enq <<].freeze

        attr_reader :fiber, :strand
        # The strand at the bottom of the chain of resumed fibers when the wait began.
        attr_reader :base
        # True if an unblock ends the wait.
        attr_reader :blocks
        attr_accessor :state, :value, :error
        # The strand that the error is meant for: the waiter's own, or that of a fiber that has
        # resumed the waiter's fiber.
        attr_accessor :target
        # True after an unblock, which an exception would lose.
        attr_accessor :binding
        # True if the waiter's fiber has just started another fiber; it then continues before
        # others.
        attr_accessor :first
        # For print_hierarchy: the awaited object, with its watch and timer.
        attr_reader :blocker
        attr_accessor :watch, :timer

        def initialize(fibers, fiber, strand, base, blocks, blocker)
          @fibers = fibers
          @fiber = fiber
          @strand = strand
          @base = base
          @blocks = blocks
          @blocker = blocker
          @state = :parked
        end

        def waiting? = @state == :parked || @state == :ready

        # True if the fiber waits in a method of Thread::Queue or Thread::SizedQueue. Calls no
        # method of the blocker, which may be a hidden mutex.
        def in_queue?
          caller = @fiber.backtrace_locations.find { |place| !place.path.start_with?(OWN_FOLDER) }
          QUEUE_METHODS.include?(caller&.base_label)
        end

        # True if an unblock ends this wait. An unblock of an earlier wait does not end a sleep.
        # `signal`: whether the unblock also ends a sleep.
        def ends_by?(blocker, signal) = !:sleep.equal?(@blocker) || :sleep.equal?(blocker) || signal

        # Values of a Gyre::Inspection::Wait.
        def describe
          fd, events = @watch ? [@watch.fd, @watch.interest] : [nil, 0]
          left = @timer.at - Loop::Timers.now if @timer&.pending?
          [@fiber, @base.fiber, @state == :ready ? :ready : :waiting, @blocker, fd, events, left]
        end

        def call = @fibers.wake(self, false)

        def ready(events)
          @value ? @value |= events : @value = events
          @fibers.wake(self, @value)
        end

        # Called by the watch: the descriptor is closed.
        def failed(error) = @fibers.inbox.raise_at(self, error)
      end
    end
  end
end
