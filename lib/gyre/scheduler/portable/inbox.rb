# frozen_string_literal: true

# Brings unblock and fiber_interrupt from any thread to the fibers of a portable scheduler: each
# ends a wait in the scheduler's own thread, or is kept for the fiber's next wait. Passes a gift
# that a fiber cannot take to another waiter. Called by Scheduler::Portable and the turns of
# Scheduler::Portable::Fibers.
require_relative "waiter"

module Gyre
  class Scheduler
    module Portable
      # A Thread::Queue holds the messages, without a Mutex: it works in a trap handler, and a push
      # never waits.
      class Inbox
        # Ends the fiber, in place of an exception.
        KILL = Object.new.freeze

        def initialize(fibers, loop)
          @fibers = fibers
          @loop = loop
          @messages = Thread::Queue.new
          @present = nil
        end

        def empty? = @present.nil? && @messages.empty?

        # Takes the messages of other threads. Handles a message again whose handling was
        # interrupted.
        def receive
          until empty?
            @present ||= @messages.pop(true)
            kind, fiber, what = @present
            kind == :unblock ? unblocked(fiber, what) : interrupted(fiber, what)
            @present = nil
          end
        end

        # Wakes a fiber parked in block, or ends its next block. From any thread.
        def unblock(fiber, blocker)
          return unblocked(fiber, blocker) if @fibers.here?

          push(:unblock, fiber, blocker)
        end

        # Raises an exception in a fiber, at its present or next wait. Any thread may call it. nil
        # ends the fiber; raises TypeError for anything else.
        def interrupt(fiber, error)
          raise TypeError, "fiber expected, not #{fiber.class}" unless fiber.is_a?(Fiber)
          raise TypeError, "exception expected, not #{error.class}" unless error.nil? || error.is_a?(Exception)

          error ||= KILL
          return interrupted(fiber, error) if @fibers.here?

          push(:interrupt, fiber, error)
        end

        # Has a waiter raise. Passes an unblock to another waiter of the same blocker; without one
        # the fiber keeps it and continues. Returns false if it is too late for this wait. `target`
        # is the Strand that the error is for.
        def raise_at(waiter, error, target = waiter.strand)
          return false if waiter.error || waiter.first || !(waiter.state == :parked || waiter.state == :ready)
          return false if waiter.binding && !hand_on(waiter.blocker)

          waiter.error = error
          waiter.target = target
          @fibers.wake(waiter, nil)
          true
        end

        # Gives an unblock's gift to another waiter of the blocker. Pushes and pops wait for the
        # same queue, so wakes all its waiters. Returns whether there is one.
        def hand_on(blocker)
          return false if nil.equal?(blocker) || :sleep.equal?(blocker)

          handed = false
          waits = { blocker => true }.compare_by_identity # calls no method of a blocker: it may be one of Ruby's hidden objects
          @fibers.parked.each_key do |waiter|
            next unless waiter.blocks && waiter.state == :parked && waits.key?(waiter.blocker)

            handed = waiter.binding = true
            @fibers.wake(waiter, true)
            break unless waiter.in_queue?
          end
          handed
        end

        private

        def push(*message)
          @messages.push(message)
          @loop.wake
        end

        # When a gift comes from another thread, its fiber may have been stopped, or be out of time.
        # Then wakes another waiter too, which is harmless, as it checks again.
        def unblocked(fiber, blocker)
          strand = Strand.of(fiber)
          waiter = strand.block_of(fiber)
          waiter = nil unless waiter && (waiter.state == :parked || waiter.state == :ready)
          signal = signal?(strand, blocker)
          return give(waiter) if waiter&.ends_by?(blocker, signal)

          strand.keep_early(blocker, signal)
          hand_on(blocker)
        end

        # Unblocks that end a sleep besides those for :sleep: a signal of ConditionVariable#wait (an
        # unblock for its mutex), and IO#close (an unblock for the IO on Ruby 4.0, for the closing
        # fiber's thread on 3.4). The blocker may be a hidden object without methods.
        def signal?(strand, blocker)
          return @fibers.thread.equal?(blocker) unless strand.source.equal?(blocker)

          strand.signalled = true
        end

        # An unblock takes precedence over a timeout, and over an exception not raised yet, unless
        # another fiber can have the gift.
        def give(waiter)
          return hand_on(waiter.blocker) if waiter.binding # already took another's place, and is still on its blocker's list

          if waiter.error
            return if hand_on(waiter.blocker)

            waiter.target.defer(waiter.error)
            waiter.error = nil
          end
          waiter.binding = true
          waiter.state == :parked ? @fibers.wake(waiter, true) : waiter.value = true
        end

        def interrupted(fiber, error)
          return unless fiber.alive?

          strand = Strand.of(fiber)
          waiter = strand.waiter
          strand.defer(error) unless waiter && raise_at(waiter, error, strand)
        end
      end
    end
  end
end
