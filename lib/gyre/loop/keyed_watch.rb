# frozen_string_literal: true

# One thing that a Loop::PortableKeyed watches under a key: a descriptor, a timer, or what a helper
# holds. It is itself the target of the portable loop's watch or timer; the keyed loop moves it from
# loop to loop.

module Gyre
  class Loop
    # See PortableKeyed.
    class KeyedWatch
      # @return [Object]
      attr_reader :key

      # @param keyed [PortableKeyed]
      # @param at [Float, nil] of a timer: when, on the monotonic clock
      # @param interval [Float, nil] of a timer: seconds between its events, 0 for one
      def initialize(keyed, key, io: nil, interest: nil, oneshot: false, at: nil, interval: nil, helper: nil)
        @keyed = keyed
        @key = key
        @io = io
        @interest = interest
        @oneshot = oneshot
        @at = at
        @interval = interval
        @helper = helper
        @queued = false
      end

      # Has a loop watch it.
      def attach(loop)
        @loop = loop
        if @io
          @registration = loop.watch(@io, @interest, self)
        elsif @at && !@over
          @registration = loop.timers.after([@at - Timers.now, 0].max, self)
        end
      rescue IOError, Errno::EBADF
        @keyed.failed(self)
      end

      # Takes it off the loop; {#attach} brings it back.
      def detach
        @registration&.cancel
        @registration = nil
      end

      # Ends it.
      def release
        detach
        @helper&.cancel
      end

      # Goes on watching once the event was taken, see {#ready}.
      def resume
        attach(@loop) if @paused && !@queued
        @paused = false unless @queued
      end

      # The event was taken off the queue.
      # @return [Boolean] whether it is to be delivered
      def taken
        @queued = false
        @helper.nil? || @helper.event
      end

      # Has its io been closed?
      def check
        failed(nil) if @io&.closed?
      end

      # @return [IOError] names the key
      def failure
        IOError.new("watch #{@key.inspect}: its io was closed; unwatch it before")
      end

      # The loop's call: the descriptor is ready.
      def ready(_events)
        if @oneshot
          @keyed.over(self)
          detach
          fire
          @helper&.cancel
        elsif @queued # the event is not taken yet: the loop must not spin
          detach
          @paused = true
        else
          fire
        end
      end

      # The loop's call: the descriptor is closed.
      def failed(_error)
        detach
        @keyed.failed(self)
      end

      # The timer's call. One that is late by more than its interval fires once, and goes on in its
      # old rhythm.
      def call
        if @interval > 0
          late = Timers.now - @at
          @at += (late > 0 ? (late / @interval).floor + 1 : 1) * @interval
          attach(@loop)
          fire unless @queued
        elsif !@over # it may be called twice
          @over = true
          @keyed.over(self)
          fire
        end
      end

      private

      def fire
        @queued = true
        @keyed.push(@key, self)
      end
    end
  end
end
