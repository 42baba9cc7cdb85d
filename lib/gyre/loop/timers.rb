# frozen_string_literal: true

# The portable loop's timers, in seconds of the monotonic clock.

module Gyre
  class Loop
    # A sorted array: inserting is one memmove in C (4 µs at 20,000 timers, nearly nothing for a
    # late one), taking the first is free. A heap in Ruby is not faster, and an interrupt would
    # leave it unordered.
    class Timers
      # Cancelled timers leave when they are more than this, and than half.
      CANCELLED_LIMIT = 128
      # select(2) takes no infinite time.
      DELAY_LIMIT_S = 86_400

      class Timer
        attr_reader :at # monotonic, in seconds

        def initialize(timers, at, target)
          @timers = timers
          @at = at
          @target = target
        end

        def cancel
          return unless @target

          @target = nil
          @timers.count_cancelled
        end

        def pending? = !@target.nil?

        def fire
          target = @target
          target&.call
        end
      end

      def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      def initialize
        @timers = []
        @cancelled = 0
      end

      # An interrupt may call `target` again, harmlessly.
      def after(seconds, target)
        timer = Timer.new(self, Timers.now + seconds, target)
        insert(timer)
        timer
      end

      def size = @timers.size - @cancelled

      # Seconds until the first timer (0: overdue), or nil.
      def delay
        drop_cancelled
        first = @timers.first or return nil

        delay = first.at - Timers.now
        delay.positive? ? [delay, DELAY_LIMIT_S].min : 0
      end

      def fire
        return if @timers.empty?

        now = Timers.now
        while (timer = @timers.first) && timer.at <= now
          timer.fire
          timer.cancel
          drop_cancelled
        end
      end

      # For Timer#cancel.
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
