# frozen_string_literal: true

# EventMachine's timers: functions that use signatures, and classes.

module Gyre
  module EventMachine
    # Calls back once.
    class Timer
      def initialize(interval, callback = nil, &block)
        @signature = EventMachine.add_timer(interval, callback || block)
      end

      def cancel = EventMachine.cancel_timer(@signature)
    end

    # Calls back again and again.
    class PeriodicTimer
      attr_accessor :interval

      def initialize(interval, callback = nil, &block)
        @interval = interval
        @code = callback || block
        @cancelled = false
        schedule
      end

      def cancel
        EventMachine.cancel_timer(@signature)
        @cancelled = true
      end

      def fire
        @code.call
        schedule
      end

      private

      def schedule = (@signature = EventMachine.add_timer(@interval, method(:fire)) unless @cancelled)
    end

    @max_timers = 100_000

    class << self
      # Returns a signature for {cancel_timer}; nil if no callback is given.
      def add_timer(interval, callback = nil, &block)
        callback ||= block or return
        reactor = self.reactor
        raise "eventmachine not initialized: add_oneshot_timer" unless reactor.running?
        raise "max timers exceeded" if reactor.timers.size >= @max_timers

        reactor.add_timer(interval.to_f, callback)
      end

      def add_periodic_timer(interval, callback = nil, &block) = PeriodicTimer.new(interval, callback || block)

      # Takes a signature or a timer.
      def cancel_timer(timer)
        timer.respond_to?(:cancel) ? timer.cancel : reactor.cancel_timer(timer)
        nil
      end

      def get_timer_count = reactor.timers.size

      def get_max_timers = @max_timers

      def set_max_timers(count)
        raise "eventmachine already initialized: evma_set_max_timer_count" if reactor.running?

        @max_timers = count
      end
    end
  end
end
