# frozen_string_literal: true

# The portable loop's timers: what is to be called when. Gyre::Loop::Portable asks how long it may
# sleep and has the due ones fired; fibers play no part here. Times are seconds of the monotonic
# clock.

module Gyre
  class Loop
    # Timers in the order of their times.
    #
    # A sorted array, not a heap: finding the place takes a few comparisons, inserting is one
    # memmove in C (4 µs at 20,000 timers, next to nothing in the usual case that the new one is
    # among the last), taking the first is free. A heap in Ruby is no faster, and an interrupt in
    # the midst of sifting would leave it in disorder.
    class Timers
      # From how many cancelled timers on they are thrown out, once they are the majority.
      CANCELLED_LIMIT = 128
      # The longest sleep at one time: select(2) takes no infinite number of seconds.
      DELAY_LIMIT_S = 86_400

      # One call in the future.
      class Timer
        # @return [Float] when, in seconds of the monotonic clock
        attr_reader :at

        def initialize(timers, at, target)
          @timers = timers
          @at = at
          @target = target
        end

        # Calls it off; harmless when it has fired.
        def cancel
          return unless @target

          @target = nil
          @timers.count_cancelled
        end

        # @return [Boolean] whether there is anything left to call
        def pending?
          !@target.nil?
        end

        # Calls the target.
        def fire
          target = @target
          target&.call
        end
      end

      # @return [Float] seconds on the monotonic clock
      def self.now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end

      def initialize
        @timers = []
        @cancelled = 0
      end

      # @param seconds [Numeric] from now
      # @param target [#call] called without arguments by {#fire}; a second call for the same timer
      #   is possible when an interrupt came in between, so it has to be harmless
      # @return [Timer]
      def after(seconds, target)
        timer = Timer.new(self, Timers.now + seconds, target)
        insert(timer)
        timer
      end

      # @return [Integer] how many are pending
      def size
        @timers.size - @cancelled
      end

      # @return [Float, nil] seconds until the first one is due (0 when it is over-due), nil when
      #   there is none
      def delay
        drop_cancelled
        first = @timers.first or return nil

        delay = first.at - Timers.now
        delay.positive? ? [delay, DELAY_LIMIT_S].min : 0
      end

      # Calls everything that is due.
      def fire
        return if @timers.empty?

        now = Timers.now
        while (timer = @timers.first) && timer.at <= now
          timer.fire
          timer.cancel
          drop_cancelled
        end
      end

      # For Timer#cancel only.
      def count_cancelled
        @cancelled += 1
        return if @cancelled < CANCELLED_LIMIT || @cancelled * 2 < @timers.size

        @timers = @timers.select(&:pending?)
        @cancelled = 0
      end

      private

      def insert(timer)
        last = @timers.last
        if last.nil? || last.at <= timer.at
          @timers.push(timer)
        else
          at = timer.at
          @timers.insert(@timers.bsearch_index { |other| other.at > at }, timer)
        end
      end

      def drop_cancelled
        while (timer = @timers.first) && !timer.pending?
          @timers.shift
          @cancelled -= 1
        end
      end
    end
  end
end
