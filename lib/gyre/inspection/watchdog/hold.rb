# frozen_string_literal: true

# Decides from looks at a loop whether it is held. Gyre::Watchdog looks and reports; this sees no
# thread and no clock.

module Gyre
  class Watchdog
    # One hold after the other: a time in which the loop neither sleeps nor gets on.
    class Hold
      # A thread that could run and computed for less than this share of the time was kept from it:
      # by another thread, which had the interpreter, or by the machine.
      LEAST_SHARE = 0.1
      # From this share of the time on it is the computing that holds the loop, whatever the thread
      # does at the moment.
      COMPUTING_SHARE = 0.5

      # @return [String] what the code that holds the loop does
      attr_reader :kind

      # @param limit_s [Numeric]
      def initialize(limit_s)
        @limit_s = limit_s
        @pulse = nil
      end

      # @param pulse [Integer, nil] of the loop (see Scheduler#pulse); nil while it sleeps
      # @param now [Float] seconds
      # @param cpu_s [Float, nil] processor time of the loop's thread, in seconds; nil where it is
      #   unknown
      # @param blocked [Boolean] whether the thread waits in a system call, or for another thread
      # @return [Array(Symbol, Float), nil] what to report and for how long the loop was held: :held
      #   when the limit is reached, and again each time that it has doubled; :over after that
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
