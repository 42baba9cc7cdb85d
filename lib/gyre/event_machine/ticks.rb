# frozen_string_literal: true

# The blocks of next_tick. Runs blocks after a turn of the loop: first the bytes sent so far leave,
# and readable connections get their callbacks. A block that is added meanwhile waits for the next
# turn.
#
#   push ──► (from a thread: wait) ──► timer of 0 s ──► turn ──► behind its events: run ──► rest

module Gyre
  module EventMachine
    # A block that a thread has the reactor run for it.
    class Errand
      def initialize(block)
        @block = block
        @answer = Thread::Queue.new
      end

      def call
        @answer << [@block.call]
      rescue StandardError => error
        @answer << [nil, error]
      ensure
        drop
      end

      # Ends a wait without an answer.
      def drop = @answer.close

      def wait
        value, error = @answer.pop || raise("the reactor has ended")
        error ? raise(error) : value
      end
    end

    class Ticks
      attr_reader :queue

      def initialize(reactor)
        @reactor = reactor
        @queue = []
        reset
      end

      def reset
        @awaited = false
        @left = 0
      end

      # From any thread.
      def push(callable)
        @queue << callable
        return if @awaited || !@reactor.running?

        @awaited = true
        @reactor.in_thread? ? wait : @reactor.emit(:wait)
      end

      def wait = @reactor.loop.watch_timer(:turn, 0)

      def turn = @reactor.emit(:run)

      def run
        @awaited = false
        @left = @queue.size
        rest
      end

      # If a block parks or raises, another pump calls the rest.
      def rest
        @reactor.emit(:rest) if @left > 1
        while @left.positive?
          @left -= 1
          @queue.shift&.call
        end
      end

      # The reactor is over.
      def drop
        errands, = @queue.grep(Errand), @queue.clear
        errands.each(&:drop)
      end
    end
  end
end
