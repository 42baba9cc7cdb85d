# frozen_string_literal: true

# One wait of one fiber, and what is remembered for a fiber between its waits. Made by the hooks of Scheduler::Portable, moved
# on by Scheduler::Portable::Fibers.

module Gyre
  class Scheduler
    class Portable < Scheduler
      # What there is to know of a fiber that uses the scheduler. It hangs on the Fiber object itself, so it goes when the
      # fiber goes, and other threads may look at it.
      class Strand
        # The wait of this fiber, or of an inner fiber that it is resuming (an Enumerator that sleeps, say).
        attr_accessor :waiter
        # Whether unblock came when the fiber was not parked: its next block returns at once. :signal: for a mutex.
        attr_accessor :early
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

        # For a block.
        # @return [Boolean] whether an unblock came before it
        def take_early
          came = @early
          @early = false
          came ? true : false
        end

        # For a sleep, which is not to be shortened by an unblock for some earlier wait. But ConditionVariable#wait is a sleep of
        # its mutex, and the signal, an unblock for that mutex, may come between the unlock and the sleep.
        def forget_early_but_signals
          @early = false unless @early == :signal
        end

        def withdraw(error)
          @deferred&.delete(error)
        end

        def take_deferred
          @deferred&.shift
        end

        # The fiber's job is over: what was meant for it must not reach the next one.
        def reset
          @early = false
          @deferred = nil
          @waiter = nil
        end
      end

      # One stay of a fiber in the scheduler: parked, then ready, then entered (the fiber has control again), then done.
      # It is itself the target of timers and watches.
      class Waiter
        attr_reader :fiber, :strand
        # The strand that stood at the bottom of the chain of resumed fibers when the wait began.
        attr_reader :base
        # Whether unblock ends it.
        attr_reader :blocks
        attr_accessor :state, :value, :error
        # Whether {#value} would be lost by raising instead: somebody else counts on this fiber having been unblocked.
        attr_accessor :binding
        # Whether it goes on before all others that are ready: it has just started one.
        attr_accessor :first
        # What it waits for, for print_hierarchy: an object, and the watch and the timer that may end it.
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

        # @return [Array] the values of a Gyre::Scheduler::Wait
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
          @fibers.raise_at(self, error)
        end
      end
    end
  end
end
