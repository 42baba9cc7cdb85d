# frozen_string_literal: true

# Decides from readings whether a loop is held. Uses neither thread nor clock.

module Gyre
  class Watchdog
    # A time without sleep and progress of the loop.
    class Hold
      # Below this share of the time another thread or the machine kept the thread from computing.
      LEAST_SHARE = 0.1
      # From this share on computing is the cause.
      COMPUTING_SHARE = 0.5

      attr_reader :kind # what the code that holds the loop does

      def initialize(limit_s)
        @limit_s = limit_s
        @pulse = nil
      end

      # Returns :held with seconds at the limit and each doubling, then :over; otherwise nil.
      # `pulse` is nil during sleep.
      def look(pulse, now, cpu_s, blocked:)
        return restart(pulse, now, cpu_s) if pulse.nil? || pulse != @pulse

        held_s = now - @since
        return if held_s < @due_s

        share = (cpu_s - @cpu_s) / held_s.to_f if cpu_s && @cpu_s
        return if share && share < LEAST_SHARE && !blocked

        @kind = blocked && (share.nil? || share < COMPUTING_SHARE) ? "waiting in a call that stops its thread" : "computing"
        @due_s *= 2 while @due_s <= held_s
        @reported = true
        [:held, held_s]
      end

      private

      def restart(pulse, now, cpu_s)
        over = [:over, now - @since] if @reported
        @pulse = pulse
        @since = now
        @cpu_s = cpu_s
        @due_s = @limit_s
        @reported = false
        over
      end
    end
  end
end
