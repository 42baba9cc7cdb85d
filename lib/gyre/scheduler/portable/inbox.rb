# frozen_string_literal: true

# What other threads want from a scheduler's fibers. They push, Scheduler::Portable::Fibers takes it out on its own thread.

module Gyre
  class Scheduler
    module Portable
      # A queue of messages that wakes the loop. Thread::Queue and no Mutex: it may be used in a trap handler, and a push
      # never waits, so it cannot come back to the scheduler.
      class Inbox
        # @param loop [Gyre::Loop::Portable]
        def initialize(loop)
          @loop = loop
          @messages = Thread::Queue.new
          @present = nil
        end

        # From any thread.
        def push(*message)
          @messages.push(message)
          @loop.wake
        end

        def empty?
          @present.nil? && @messages.empty?
        end

        # Takes out all messages. One during whose treatment an interrupt came is treated again next time.
        # @yieldparam message [Array]
        def each
          until empty?
            @present ||= @messages.pop(true)
            yield(*@present)
            @present = nil
          end
        end
      end
    end
  end
end
