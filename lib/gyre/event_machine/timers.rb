# frozen_string_literal: true

# EventMachine's timers: functions that return signatures, and the classes on top of these.

module Gyre
  module EventMachine
    # Calls once.
    class Timer
      # @param interval [Numeric] seconds
      # @param callback [#call, nil] instead of the block
      def initialize(interval, callback = nil, &block)
        @signature = EventMachine.add_timer(interval, callback || block)
      end

      # @return [void]
      def cancel = EventMachine.cancel_timer(@signature)
    end

    # Calls again and again.
    class PeriodicTimer
      # @return [Numeric] seconds
      attr_accessor :interval

      # @param interval [Numeric] seconds
      # @param callback [#call, nil] instead of the block
      def initialize(interval, callback = nil, &block)
        @interval = interval
        @code = callback || block
        @cancelled = false
        schedule
      end

      # @return [void]
      def cancel
        EventMachine.cancel_timer(@signature)
        @cancelled = true
      end

      # @api private
      def fire
        @code.call
        schedule
      end

      private

      def schedule
        @signature = EventMachine.add_timer(@interval, method(:fire)) unless @cancelled
      end
    end

    @max_timers = 100_000

    class << self
      # Calls once.
      # @param interval [Numeric] seconds
      # @param callback [#call, nil] instead of the block
      # @return [Integer, nil] for {cancel_timer}; nil without a callback
      def add_timer(interval, callback = nil, &block)
        callback ||= block or return
        raise "eventmachine not initialized: add_oneshot_timer" unless reactor_running?
        raise "max timers exceeded" if reactor.timers.size >= @max_timers

        reactor.add_timer(interval.to_f, callback)
      end

      # @return [PeriodicTimer]
      def add_periodic_timer(interval, callback = nil, &block) = PeriodicTimer.new(interval, callback || block)

      # @param timer [Integer, Timer, PeriodicTimer]
      # @return [void]
      def cancel_timer(timer)
        timer.respond_to?(:cancel) ? timer.cancel : reactor.cancel_timer(timer)
        nil
      end

      # @return [Integer]
      def get_max_timers = @max_timers
      alias get_max_timer_count get_max_timers

      # @param count [Integer]
      def set_max_timers(count)
        raise "eventmachine already initialized: evma_set_max_timer_count" if reactor_running?

        @max_timers = count
      end
      alias set_max_timer_count set_max_timers
    end
  end
end
