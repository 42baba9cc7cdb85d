# frozen_string_literal: true

# Cases of a Gyre::Selection. A selection tries its cases, lets them wait with an offer, makes them
# leave, and finishes the chosen case by calling its block. A channel's case waits in the channel,
# other cases wait elsewhere.

require "gyre/errors"
require "gyre/loop/select"
require "gyre/sync/spin_lock"
require "gyre/sync/waiter"

module Gyre
  class Selection
    class Case
      def initialize(block)
        @block = block
      end

      # The channel whose lock a try needs; nil if a try needs no lock.
      def channel; end

      def wait_in_channel(offer) = @offer = offer

      # Starts to wait, except in a channel.
      def wait_elsewhere; end

      # Ends the wait if there is one.
      def leave; end

      # Called if the selection was stopped after the case had taken the offer.
      def give_back; end

      def finish = @block ? @block.call(value) : value

      def value; end
    end

    class ChannelCase < Case
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

      def leave = @channel.forget(self)

      # Called by the channel under its lock; `message` is Channel::NOTHING if the channel is
      # closed. True if the selection was still waiting.
      def take(message) = @offer.take(self) { @value = message }

      def finish
        raise Channel::ClosedError if Channel::NOTHING.equal?(@value)

        super
      end
    end

    class Receive < ChannelCase
      attr_reader :value

      def try
        message = @channel.receive_now
        return false if message.equal?(Channel::NOTHING)

        @value = message
        true
      end

      def give_back = (@channel.give_back(@value) unless @value.equal?(Channel::NOTHING))

      def to_s = "a message from #{@channel.label}"
    end

    class Send < ChannelCase
      attr_reader :message

      def initialize(channel, message, block)
        super(channel, block)
        @message = message
      end

      def try = @channel.send_now(@message)

      def to_s = "room in #{@channel.label}"
    end

    # Limits the selection's wait.
    class Timer < Case
      attr_reader :seconds

      def initialize(seconds, block)
        raise ArgumentError, "seconds must be a number, not #{seconds.inspect}" unless seconds.is_a?(Numeric)

        super(block)
        @seconds = seconds
      end

      def try = @seconds <= 0

      def to_s = "a timer of #{@seconds} s"
    end

    # A ready descriptor, awaited in a pooled fiber.
    class Readiness < Case
      def initialize(io, events, block)
        super(block)
        @io = io
        @events = events
        @error = @fiber = nil
      end

      # Also true for bytes in the IO's own buffer.
      def try
        lists = @events == IO::READABLE ? [[@io], nil] : [nil, [@io]]
        !Loop::Select.blocking { IO.select(*lists, nil, 0) }.nil?
      end

      def wait_elsewhere
        @scheduler = Fiber.current_scheduler # none in a blocking fiber, where no fiber would drive the loop
        raise Error, "select on an IO needs a Gyre::Scheduler: wrap it in Gyre.run { }" unless @scheduler.is_a?(Scheduler)

        @scheduler.spawn(method(:watch))
      end

      def leave = (@scheduler.fiber_interrupt(@fiber, Stop.new) if @fiber)

      def finish
        raise @error if @error

        super
      end

      def value = @io

      def to_s = "#{@events == IO::READABLE ? "something to read from" : "room to write to"} #{@io.inspect}"

      private

      def watch
        @fiber = Fiber.current
        begin
          @scheduler.io_wait(@io.to_io, @events, nil)
          raise IOError, "stream closed while a select waited for it" if @io.to_io.closed?
        rescue IOError, SystemCallError => error # also IO#timeout's
          @error = error
        ensure
          @fiber = nil # may have another job from now on
        end
        @offer.take(self)
      rescue Stop # by `leave`
        nil
      end
    end

    class Finish < Case
      def initialize(task, block)
        super(block)
        @task = task
        @listening = false
      end

      def try = @task.finished?

      def wait_elsewhere
        @listening = true
        @task.listen(self)
      end

      # Called in the task's thread.
      def wake = @offer.take(self)

      def leave = (@task.unlisten(self) if @listening)

      def value = @task

      def to_s = "the end of #{@task.label}"
    end

    # The offer of a waiting Gyre::Selection: the first case that takes it is chosen. Any thread may
    # take it, even if it holds no channel's lock.
    class Offer
      attr_reader :taken

      def initialize(selection)
        @waiter = Waiter.new(selection)
        @token = [true] # Array#pop is one step for all threads
        @taken = nil
      end

      # Takes the offer if it is free, and yields before the selection goes on. True if it was free.
      def take(one)
        Thread.handle_interrupt(SpinLock::NEVER) do # both taken and the waiter woken
          next false unless @token.pop

          yield if block_given?
          @taken = one
          @waiter.wake
          true
        end
      end

      # Returns the case that has taken the offer; nil after the timeout, when no case can take it
      # any more.
      def wait(timeout)
        return @taken if @waiter.park(timeout) || @token.pop.nil? && @waiter.park

        nil
      end
    end
  end
end
