# frozen_string_literal: true

# One wait of one fiber, and what is remembered for a fiber between its waits. Made by the hooks of
# Scheduler::Portable, moved on by Scheduler::Portable::Fibers.

module Gyre
  class Scheduler
    module Portable
      # What belongs to a fiber that uses the scheduler. It hangs on the Fiber object
      # itself, so it goes when the fiber goes, and other threads may look at it.
      class Strand
        # The wait of this fiber, or of an inner fiber that it is resuming (an Enumerator that
        # sleeps, for example).
        attr_accessor :waiter
        # @return [Fiber]
        attr_reader :fiber

        # @param fiber [Fiber]
        # @return [Strand] the one of this fiber
        def self.of(fiber)
          fiber.instance_variable_get(:@gyre_strand) || fiber.instance_variable_set(:@gyre_strand, new(fiber))
        end

        # @param fiber [Fiber]
        def initialize(fiber)
          @fiber = fiber
        end

        # The strand if there is one. From any thread.
        def self.known(fiber)
          fiber.instance_variable_get(:@gyre_strand)
        end

        # @return [Waiter, nil] the present wait of the fiber itself, when unblock ends it
        def block_of(fiber)
          waiter = @waiter
          waiter if waiter&.blocks && waiter.fiber.equal?(fiber)
        end

        # An exception that found no wait: it is raised at the next one.
        def defer(error)
          (@deferred ||= []).push(error)
        end

        # An unblock that came when the fiber was not parked: its next block returns at once if it
        # is for the same. One that comes late, when the wait that it is for has ended by itself, so
        # ends no other.
        # @param blocker [Object] no method of it is called: it may be one of Ruby's hidden objects
        # @param signal [Boolean] whether it ends a sleep, too
        def keep_early(blocker, signal)
          (@early ||= {}.compare_by_identity)[blocker] = signal
        end

        # For a block.
        # @return [Boolean] whether an unblock came before it
        def take_early(blocker)
          early = @early or return false
          @early = nil
          early.key?(blocker) || (:sleep.equal?(blocker) && early.value?(true))
        end

        # The mutex of the fiber's ConditionVariable#wait, or the IO that it closes, and whether a
        # signal from there has reached it; nil outside of both.
        attr_accessor :source, :signalled

        def withdraw(error)
          @deferred&.delete(error)
        end

        def take_deferred
          @deferred&.shift
        end

        # The fiber's job is over: what was meant for it must not reach the next one.
        def reset
          @early = @deferred = @waiter = @source = @signalled = nil
        end
      end

      # One stay of a fiber in the scheduler: parked, then ready, then entered (the fiber has
      # control again), then done. It is itself the target of timers and watches.
      class Waiter
        OWN_FOLDER = File.dirname(__dir__).freeze
        QUEUE_METHODS = %w[pop shift deq push enq <<].freeze
        private_constant :OWN_FOLDER, :QUEUE_METHODS

        attr_reader :fiber, :strand
        # The strand that stood at the bottom of the chain of resumed fibers when the wait began.
        attr_reader :base
        # Whether unblock ends it.
        attr_reader :blocks
        attr_accessor :state, :value, :error
        # The strand that the error is meant for: this one, or one that resumes it.
        attr_accessor :target
        # Whether {#value} would be lost by raising instead: an unblock is meant to reach this
        # fiber.
        attr_accessor :binding
        # Whether it goes on before all others that are ready: it has just started one.
        attr_accessor :first
        # What it waits for, for print_hierarchy: an object, and the watch and the timer that may
        # end it.
        attr_reader :blocker
        attr_accessor :watch, :timer

        # @param fibers [Fibers]
        # @param base [Strand]
        # @param blocks [Boolean]
        def initialize(fibers, fiber, strand, base, blocks, blocker)
          @fibers = fibers
          @fiber = fiber
          @strand = strand
          @base = base
          @blocks = blocks
          @blocker = blocker
          @state = :parked
        end

        # @return [Boolean] whether its fiber has not been entered yet
        def waiting?
          @state == :parked || @state == :ready
        end

        # Whether its fiber is in a method of Thread::Queue or Thread::SizedQueue. The blocker is
        # not asked: it may be a hidden mutex.
        def in_queue?
          caller = @fiber.backtrace_locations.find { |place| !place.path.start_with?(OWN_FOLDER) }
          QUEUE_METHODS.include?(caller&.base_label)
        end

        # A sleep ends for its own sake or for a signal, and not for an unblock of some earlier
        # wait.
        # @param signal [Boolean] whether the blocker ends a sleep, too
        # @return [Boolean] whether an unblock with this blocker ends it
        def ends_by?(blocker, signal)
          !:sleep.equal?(@blocker) || :sleep.equal?(blocker) || signal
        end

        # @return [Array] the values of a Gyre::Inspection::Wait
        def describe
          fd, events = @watch ? [@watch.fd, @watch.interest] : [nil, 0]
          left = @timer.at - Loop::Timers.now if @timer&.pending?
          [@fiber, @base.fiber, @state == :ready ? :ready : :waiting, @blocker, fd, events, left]
        end

        # The timer's call: the time is over.
        def call
          @fibers.wake(self, false)
        end

        # The watch's call: the descriptor is ready.
        def ready(events)
          @value ? @value |= events : @value = events
          @fibers.wake(self, @value)
        end

        # The watch's call: the descriptor is closed.
        def failed(error)
          @fibers.inbox.raise_at(self, error)
        end
      end
    end
  end
end
