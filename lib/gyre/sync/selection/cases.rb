# frozen_string_literal: true

# The kinds of cases that a Gyre::Selection has. Each can be tried without waiting, wait for its
# turn by an offer, leave again, and be finished once it has been done: then its block runs, without
# any lock. The case of a channel waits in the channel, where the channel takes it; others wait
# elsewhere.

require "gyre/errors"
require "gyre/loop/select"

module Gyre
  class Selection
    # What the kinds have in common.
    class Case
      # @param block [Proc, nil]
      def initialize(block)
        @block = block
      end

      # @return [Channel, nil] to be locked while the case is tried
      def channel; end

      # @param offer [Offer]
      def wait_in_channel(offer)
        @offer = offer
      end

      # Registers where it waits, if that is no channel.
      def wait_elsewhere; end

      # Ends both; harmless if it never waited.
      def leave; end

      # It was taken, but the selection cannot finish it.
      def give_back; end

      # @return [Object] what the block returns
      def finish
        @block ? @block.call(value) : value
      end
    end

    # What the two kinds for channels have in common.
    class ChannelCase < Case
      # @return [Channel]
      attr_reader :channel

      def initialize(channel, block)
        raise ArgumentError, "this case needs a Gyre::Channel, not #{channel.inspect}" unless channel.is_a?(Channel)

        super(block)
        @channel = channel
      end

      # Needs the channel's lock.
      def wait_in_channel(offer)
        super
        @channel.wait_for(self)
      end

      def leave
        @channel.forget(self)
      end

      # The channel's call, which has the lock.
      # @param message [Object] Channel::NOTHING when the channel is closed
      # @return [Boolean] whether the selection still waited
      def take(message)
        @offer.take(self) { @value = message }
      end

      def finish
        raise Channel::ClosedError if Channel::NOTHING.equal?(@value)

        super
      end
    end

    # A message comes out of a channel.
    class Receive < ChannelCase
      attr_reader :value

      def try
        message = @channel.receive_now
        return false if message.equal?(Channel::NOTHING)

        @value = message
        true
      end

      def give_back
        @channel.give_back(@value) unless @value.equal?(Channel::NOTHING)
      end

      def to_s
        "a message from #{@channel.label}"
      end
    end

    # A message goes into a channel.
    class Send < ChannelCase
      # @return [Object]
      attr_reader :message

      def initialize(channel, message, block)
        super(channel, block)
        @message = message
      end

      def try
        @channel.send_now(@message)
      end

      def value; end

      def to_s
        "room in #{@channel.label}"
      end
    end

    # Time is over: the selection waits no longer than its earliest timer.
    class Timer < Case
      # @return [Numeric]
      attr_reader :seconds

      def initialize(seconds, block)
        raise ArgumentError, "seconds must be a number, not #{seconds.inspect}" unless seconds.is_a?(Numeric)

        super(block)
        @seconds = seconds
      end

      def try
        @seconds <= 0
      end

      def value; end

      def to_s
        "a timer of #{@seconds} s"
      end
    end

    # A descriptor is ready. A pooled fiber waits for it in the selection's name.
    class Readiness < Case
      def initialize(io, events, block)
        super(block)
        @io = io
        @events = events
        @error = @fiber = nil
      end

      # Also when there are bytes in the IO's own buffer, which the kernel does not see.
      def try
        lists = @events == IO::READABLE ? [[@io], nil] : [nil, [@io]]
        !Loop::Select.blocking { IO.select(*lists, nil, 0) }.nil?
      end

      def wait_elsewhere
        @scheduler = Fiber.current_scheduler # none in a blocking fiber, where no fiber would drive the loop meanwhile
        raise Error, "select on an IO needs a Gyre::Scheduler: wrap it in Gyre.run { }" unless @scheduler.is_a?(Scheduler)

        @scheduler.spawn(method(:watch))
      end

      def leave
        @scheduler.fiber_interrupt(@fiber, Stop.new) if @fiber
      end

      def finish
        raise @error if @error

        super
      end

      def value
        @io
      end

      def to_s
        "#{@events == IO::READABLE ? "something to read from" : "room to write to"} #{@io.inspect}"
      end

      private

      def watch
        @fiber = Fiber.current
        begin
          @scheduler.io_wait(@io.to_io, @events, nil)
          raise IOError, "stream closed while a select waited for it" if @io.to_io.closed?
        rescue IOError, SystemCallError => error # also when its own timeout is over
          @error = error
        ensure
          @fiber = nil # from now on it may have another job
        end
        @offer.take(self)
      rescue Stop # by `leave`
        nil
      end
    end

    # A task is over.
    class Finish < Case
      def initialize(task, block)
        super(block)
        @task = task
        @listening = false
      end

      def try
        @task.finished?
      end

      def wait_elsewhere
        @listening = true
        @task.listen(self)
      end

      # The task's call, from its own thread.
      def wake
        @offer.take(self)
      end

      def leave
        @task.unlisten(self) if @listening
      end

      def value
        @task
      end

      def to_s
        "the end of #{@task.label}"
      end
    end
  end
end
