# frozen_string_literal: true

# Takes calls of unblock and fiber_interrupt from any thread and ends fibers' waits in the
# scheduler's thread. If the fiber does not wait, keeps the call for its next wait. Passes a wake-up
# that its fiber cannot use to another waiter. Called by Scheduler::Portable and its Fibers.
require_relative "waiter"

module Gyre
  class Scheduler
    module Portable
      # A Thread::Queue holds the messages. It has no Mutex, so it works in trap handlers, and
      # pushes never wait.
      class Inbox
        # Given to {#interrupt} in place of an exception: the fiber has to end.
        KILL = Object.new.freeze

        def initialize(fibers, loop)
          @fibers = fibers
          @loop = loop
          @messages = Thread::Queue.new
          @present = nil
        end

        def empty? = @present.nil? && @messages.empty?

        # Handles other threads' messages. Repeats a handling that was interrupted; an exception as
        # Thread::Queue#pop returns would lose the message.
        def receive
          until empty?
            @present || Thread.handle_interrupt(Loop::WakeupPipe::NEVER) { @present = @messages.pop(true) }
            kind, fiber, what = @present
            kind == :unblock ? unblocked(fiber, what) : interrupted(fiber, what)
            @present = nil
          end
        end

        # Wakes a blocked fiber, or ends its next block. Any thread may call it.
        def unblock(fiber, blocker)
          return unblocked(fiber, blocker) if @fibers.here?

          push(:unblock, fiber, blocker)
        end

        # Raises an exception in a fiber at its present or next wait; nil ends the fiber. Raises
        # TypeError for other arguments. Any thread may call it.
        def interrupt(fiber, error)
          raise TypeError, "fiber expected, not #{fiber.class}" unless fiber.is_a?(Fiber)
          raise TypeError, "exception expected, not #{error.class}" unless error.nil? || error.is_a?(Exception)

          error ||= KILL
          return interrupted(fiber, error) if @fibers.here?

          push(:interrupt, fiber, error)
        end

        # Makes a waiter raise; false if it is too late. If the waiter has already got an unblock,
        # passes the unblock to another waiter of the blocker. If no other fiber waits, the
        # fiber keeps the unblock and does not raise. `target`: the Strand that the error is meant
        # for.
        def raise_at(waiter, error, target = waiter.strand)
          return false if waiter.error || waiter.first || !(waiter.state == :parked || waiter.state == :ready)
          return false if waiter.binding && !hand_on(waiter.blocker)

          waiter.error = error
          waiter.target = target
          @fibers.wake(waiter, nil)
          true
        end

        # Passes a wake-up to another waiter; false if there is none. If the blocker is a queue,
        # wakes all its waiters, as both pushes and pops wait there.
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

        # Ends the fiber's wait. If the unblock ends no wait (the fiber was stopped, is late or has
        # not parked yet), keeps the unblock and also wakes another waiter, which checks again.
        def unblocked(fiber, blocker)
          strand = Strand.of(fiber)
          waiter = strand.block_of(fiber)
          waiter = nil unless waiter && (waiter.state == :parked || waiter.state == :ready)
          signal = signal?(strand, blocker)
          return give(waiter) if waiter&.ends_by?(blocker, signal)

          strand.keep_early(blocker, signal)
          hand_on(blocker)
        end

        # True if an unblock for a blocker other than :sleep also ends a sleep. The blocker is then
        # the mutex of ConditionVariable#wait; in IO#close it is the IO (Ruby 4.0) or the
        # scheduler's thread (Ruby 3.4). Calls no method of `blocker`, which may be a hidden object.
        def signal?(strand, blocker)
          return @fibers.thread.equal?(blocker) unless strand.source.equal?(blocker)

          strand.signalled = true
        end

        # Gives a waiter an unblock, which beats a timeout. It also beats a pending exception,
        # unless another waiter can take the unblock.
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
          strand.defer(error) unless waiter && !strand.masked?(error, waiter) && raise_at(waiter, error, strand)
        end
      end
    end
  end
end
