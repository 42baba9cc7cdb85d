# frozen_string_literal: true

# What unblock and fiber_interrupt bring to the fibers of a portable scheduler, from any thread: it
# is sent to the scheduler's own thread, and there it ends a wait, or is kept for the fiber's next
# one. What is given to a fiber that cannot take it goes to another one that waits for the same.
# Called by Scheduler::Portable and by the turns of Scheduler::Portable::Fibers.
require_relative "waiter"

module Gyre
  class Scheduler
    module Portable
      # Other threads' messages stand in a Thread::Queue, without a Mutex: it may be used in a trap
      # handler, and a push never waits, so it cannot come back to the scheduler.
      class Inbox
        # In place of an exception: the fiber ends.
        KILL = Object.new.freeze

        # @param fibers [Fibers]
        # @param loop [Gyre::Loop::Portable] is woken by messages
        def initialize(fibers, loop)
          @fibers = fibers
          @loop = loop
          @messages = Thread::Queue.new
          @present = nil
        end

        def empty?
          @present.nil? && @messages.empty?
        end

        # Takes what other threads sent. A message during whose treatment an interrupt came is
        # treated again next time.
        def receive
          until empty?
            @present ||= @messages.pop(true)
            kind, fiber, what = @present
            kind == :unblock ? unblocked(fiber, what) : interrupted(fiber, what)
            @present = nil
          end
        end

        # Wakes a fiber parked in block, or has its next block return at once. From any thread.
        def unblock(fiber, blocker)
          return unblocked(fiber, blocker) if @fibers.here?

          push(:unblock, fiber, blocker)
        end

        # Has a fiber raise an exception at its present wait, or at its next one. From any thread.
        # @param error [Exception, nil] nil ends the fiber
        # @raise [TypeError] for anything else
        def interrupt(fiber, error)
          raise TypeError, "fiber expected, not #{fiber.class}" unless fiber.is_a?(Fiber)
          raise TypeError, "exception expected, not #{error.class}" unless error.nil? || error.is_a?(Exception)

          error ||= KILL
          return interrupted(fiber, error) if @fibers.here?

          push(:interrupt, fiber, error)
        end

        # Has a waiter raise. What it has been given by an unblock goes to another one that waits
        # for the same; when there is none, it keeps it and goes on.
        # @param target [Strand] of the fiber that it is meant for
        # @return [Boolean] false when it is too late for this wait
        def raise_at(waiter, error, target = waiter.strand)
          return false if waiter.error || waiter.first || !(waiter.state == :parked || waiter.state == :ready)
          return false if waiter.binding && !hand_on(waiter.blocker)

          waiter.error = error
          waiter.target = target
          @fibers.wake(waiter, nil)
          true
        end

        # Wakes another fiber in the place of one that cannot take what it was given. Pushes and
        # pops wait for the same queue, so of these all are woken.
        # @return [Boolean] whether there is one
        def hand_on(blocker)
          return false if nil.equal?(blocker) || :sleep.equal?(blocker)

          handed = false
          waits = { blocker => true }.compare_by_identity # no method of a blocker is called: it may be one of Ruby's hidden objects
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

        # What another thread has given to a fiber may come too late: the fiber was stopped
        # meanwhile, or its time was over. So if it does not wait for this, another one that does is
        # woken, too; that is harmless, for it looks again.
        def unblocked(fiber, blocker)
          strand = Strand.of(fiber)
          waiter = strand.block_of(fiber)
          waiter = nil unless waiter && (waiter.state == :parked || waiter.state == :ready)
          signal = signal?(strand, blocker)
          return give(waiter) if waiter&.ends_by?(blocker, signal)

          strand.keep_early(blocker, signal)
          hand_on(blocker)
        end

        # Unblocks that end a sleep besides those for :sleep. ConditionVariable#wait is a sleep, and
        # its signal is an unblock for its mutex. So is IO#close while others use the IO: they
        # unblock it for the IO (Ruby 4.0), or for the thread of the fiber that closes (3.4). The
        # blocker may be one of Ruby's hidden objects, of which no method can be called.
        def signal?(strand, blocker)
          return @fibers.thread.equal?(blocker) unless strand.source.equal?(blocker)

          strand.signalled = true
        end

        # An unblock wins over the end of the time, and over an exception that has not been raised
        # yet, unless another fiber can have what it gives.
        def give(waiter)
          return hand_on(waiter.blocker) if waiter.binding # in the place of another one, and it is still on its blocker's list

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
