# frozen_string_literal: true

# The blocks of next_tick, and TickLoop and SpawnedProcess, which use next_tick. Blocks run after a
# turn of the loop, in which queued bytes are sent and readable connections get their callbacks. A
# block that is added by a running block waits for the next turn.
#
#   push ──► (from a thread: wait) ──► timer of 0 s ──► turn ──► behind its events: run ──► rest
require "gyre/sync/promise"

module Gyre
  module EventMachine
    # A block that the reactor runs for a waiting thread.
    # @api private
    class Errand < Promise
      def initialize(block)
        super()
        @block = block
      end

      # The waiting thread raises the block's error.
      def call
        resolve(@block.call)
      rescue StandardError => error
        reject(error)
      ensure
        drop
      end

      def drop = reject("the reactor has ended")
    end

    # @api private
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

      # Runs the blocks that were added before the reactor began.
      def start
        return if @queue.empty?

        @awaited = true
        @reactor.emit(:run)
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

      # Lets a timer of 0 s come first, as in EventMachine.
      def wait_again
        return unless @reactor.loop.watching?(:turn)

        @reactor.loop.unwatch(:turn)
        wait
      end

      def run
        @awaited = false
        turn_over
      end

      # Runs the blocks that are there.
      def turn_over
        @left = @queue.size
        rest
      end

      # Runs the blocks of this turn. If a block parks or raises, another pump runs the rest.
      def rest
        @reactor.emit(:rest) if @left > 1
        while @left.positive?
          @left -= 1
          @queue.shift&.call
        end
      end

      def drop
        errands, = @queue.grep(Errand), @queue.clear
        errands.each(&:drop)
      end
    end

    # Makes and starts a {TickLoop}.
    # @return [TickLoop]
    def self.tick_loop(*callable, &block) = TickLoop.new(*callable, &block).tap(&:start)

    # Calls back in each tick.
    class TickLoop
      def initialize(*callable, &block)
        @tick = EventMachine.Callback(*callable, &block)
        @on_stop = []
        @stopped = true
      end

      # Calls back at the next stop, or immediately if the loop is stopped.
      def on_stop(*callable, &block)
        callback = EventMachine.Callback(*callable, &block)
        @stopped ? callback.call : @on_stop << callback
      end

      # Calls the callbacks of {#on_stop}.
      def stop
        @stopped = true
        @on_stop.shift.call until @on_stop.empty?
      end

      # @return [Boolean]
      def stopped? = @stopped

      # @raise [ArgumentError] if the loop is running
      def start
        raise ArgumentError, "the tick loop runs already" unless @stopped

        @stopped = false
        schedule
      end

      private

      def schedule
        EventMachine.next_tick do
          next if @stopped

          @tick.call == :stop ? stop : schedule
        end
      end
    end

    # Returned by a spawned block, to continue with another block.
    # @api private
    Yielded = Struct.new(:block, :notify)

    # @return [SpawnedProcess]
    def self.spawn(&block) = SpawnedProcess.new.tap { |process| process.set_receiver(block) }

    # Called at the end of a spawned block; later messages run the given block.
    def self.yield(&block) = Yielded.new(block, false)

    # Called at the end of a spawned block; the given block runs in a later tick.
    def self.yield_and_notify(&block) = Yielded.new(block, true)

    # A block and its messages.
    class SpawnedProcess
      # Runs the block in a later tick.
      # @param args [Array] the block's arguments
      def notify(*args)
        EventMachine.next_tick do
          outcome = instance_exec(*args, &@receiver)
          if outcome.is_a?(Yielded)
            set_receiver(outcome.block)
            notify if outcome.notify
          end
        end
      end
      alias resume notify
      alias run notify

      # @param block [Proc]
      def set_receiver(block) = @receiver = block
    end
  end
end
