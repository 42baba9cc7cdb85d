# frozen_string_literal: true

# A watch of Loop::PortableKeyed: of a descriptor, a timer or a helper. Called by the portable
# loop's watch or timer.

module Gyre
  class Loop
    class KeyedWatch
      attr_reader :key

      # `at` (monotonic seconds) and `interval` (seconds; 0: fires once) belong to a timer.
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

      def detach
        @registration&.cancel
        @registration = nil
      end

      def release
        detach
        @helper&.cancel
      end

      # Called before each wait. Goes on watching once a queued event was taken ({#ready}); fails if
      # the io was closed.
      def resume
        return failed(nil) if @io&.closed?

        attach(@loop) if @paused && !@queued
        @paused = false unless @queued
      end

      # Called when the watch's event is taken. True if the key is to be delivered.
      def taken
        @queued = false
        @helper.nil? || @helper.event
      end

      def failure = IOError.new("watch #{@key.inspect}: its io was closed; unwatch it before")

      def ready(_events)
        if @oneshot
          @keyed.over(self)
          detach
          fire
          @helper&.cancel
        elsif @queued # pauses until the event is taken, or the loop would spin
          detach
          @paused = true
        else
          fire
        end
      end

      def failed(_error)
        detach
        @keyed.failed(self)
      end

      # Called by the timer. If it is late, fires once for all missed times and keeps the rhythm.
      def call
        if @interval > 0
          late = Timers.now - @at
          @at += (late > 0 ? (late / @interval).floor + 1 : 1) * @interval
          attach(@loop)
          fire unless @queued
        elsif !@over # may be called twice
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
