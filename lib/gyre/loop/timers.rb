# frozen_string_literal: true

# The portable loop's timers, in seconds of the monotonic clock.

module Gyre
  class Loop
    # A sorted array. Inserting a timer is one memmove in C: 4 µs among 20,000 timers, nearly
    # nothing at the end. Removing the first is free. A heap in Ruby is not faster, and an interrupt
    # could leave it unordered.
    class Timers
      # Maximum delay, as select(2) takes no infinite timeout.
      DELAY_LIMIT_S = 86_400

      class Timer
        attr_reader :at # monotonic, in seconds

        def initialize(timers, at, target)
          @timers = timers
          @at = at
          @target = target
        end

        # Searches by time, as Array#delete would compare all timers. An interrupt may leave the
        # timer in the array until its time.
        def cancel
          @target = nil
          place = @timers.bsearch_index { |other| other.at >= @at } or return
          place += 1 while (other = @timers[place]) && other.at == @at && !other.equal?(self)
          @timers.delete_at(place) if @timers[place].equal?(self)
        end

        def pending? = !@target.nil?

        def fire = @target&.call
      end

      def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      def initialize
        @timers = []
      end

      # Calls `target` when the time has passed, and perhaps again after an interrupt.
      def after(seconds, target)
        timer = Timer.new(@timers, Timers.now + seconds, target)
        insert(timer)
        timer
      end

      def size = @timers.size

      # Returns seconds until the first timer (0: overdue), nil if there is none.
      def delay
        first = @timers.first or return nil

        delay = first.at - Timers.now
        delay.positive? ? [delay, DELAY_LIMIT_S].min : 0
      end

      def fire
        now = Timers.now
        while (timer = @timers.first) && timer.at <= now
          timer.fire
          timer.cancel
        end
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
    end
  end
end
