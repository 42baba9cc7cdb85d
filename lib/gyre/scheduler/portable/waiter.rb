# frozen_string_literal: true

# One wait of one fiber, and a fiber's state between waits. Made by the hooks of
# Scheduler::Portable, moved by Scheduler::Portable::Fibers.

module Gyre
  class Scheduler
    module Portable
      # A fiber's state in the scheduler. An instance variable of the Fiber holds it: it is
      # collected with the fiber, and other threads may read it.
      class Strand
        # The wait of this fiber, or of an inner fiber that it resumes (an Enumerator that sleeps,
        # for example).
        attr_accessor :waiter
        attr_reader :fiber

        def self.of(fiber)
          fiber.instance_variable_get(:@gyre_strand) || fiber.instance_variable_set(:@gyre_strand, new(fiber))
        end

        def initialize(fiber)
          @fiber = fiber
        end

        # The strand, if any. From any thread.
        def self.known(fiber) = fiber.instance_variable_get(:@gyre_strand)

        # The unblock that ends the fiber's present wait; nil without one.
        def block_of(fiber)
          waiter = @waiter
          waiter if waiter&.blocks && waiter.fiber.equal?(fiber)
        end

        # Keeps an exception that came without a wait, for the next wait.
        def defer(error) = (@deferred ||= []).push(error)

        # Keeps an unblock that came before the fiber parked: its next block returns at once if the
        # blocker is the same. So a late unblock, for a wait that has ended by itself, ends no other
        # wait. Calls no method of `blocker`, which may be one of Ruby's hidden objects. `signal`:
        # also ends a sleep.
        def keep_early(blocker, signal) = (@early ||= {}.compare_by_identity)[blocker] = signal

        # For a block. Returns whether an unblock came before it.
        def take_early(blocker)
          early = @early or return false
          @early = nil
          early.key?(blocker) || (:sleep.equal?(blocker) && early.value?(true))
        end

        # The mutex of the fiber's ConditionVariable#wait, or the IO that it closes, and whether its
        # signal has come; else nil.
        attr_accessor :source, :signalled

        def withdraw(error) = @deferred&.delete(error)

        def take_deferred = @deferred&.shift

        # Called when the job is over: leftovers must not reach the next one.
        def reset
          @early = @deferred = @waiter = @source = @signalled = nil
        end
      end

      # One wait of a fiber. Its states: parked, ready, entered (the fiber runs again), done. The
      # target of timers and watches.
      class Waiter
        OWN_FOLDER = File.dirname(__dir__).freeze
        QUEUE_METHODS = %w[pop shift deq push enq <<].freeze
        private_constant :OWN_FOLDER, :QUEUE_METHODS

        attr_reader :fiber, :strand
        # The strand at the bottom of the chain of resumed fibers, when the wait began.
        attr_reader :base
        # True if unblock ends it.
        attr_reader :blocks
        attr_accessor :state, :value, :error
        # The error is meant for this strand: the waiter's own, or that of a fiber that has resumed
        # its fiber.
        attr_accessor :target
        # True if an unblock has come for this fiber, whose {#value} an exception would lose.
        attr_accessor :binding
        # True if its fiber has just started another one and therefore continues before all other
        # ready fibers.
        attr_accessor :first
        # For print_hierarchy: the awaited object, and the watch and timer that may end it.
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

        # True until its fiber is entered.
        def waiting?
          @state == :parked || @state == :ready
        end

        # True if its fiber is in a method of Thread::Queue or Thread::SizedQueue. Does not ask the
        # blocker, which may be a hidden mutex.
        def in_queue?
          caller = @fiber.backtrace_locations.find { |place| !place.path.start_with?(OWN_FOLDER) }
          QUEUE_METHODS.include?(caller&.base_label)
        end

        # A sleep ends by itself or by a signal; unblocks of earlier waits do not end it. `signal`:
        # also ends a sleep.
        def ends_by?(blocker, signal) = !:sleep.equal?(@blocker) || :sleep.equal?(blocker) || signal

        # The values of a Gyre::Inspection::Wait.
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
