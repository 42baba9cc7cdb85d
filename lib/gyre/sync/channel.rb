# frozen_string_literal: true

# A bounded channel between tasks and threads. Passes each message straight to a waiting receiver,
# if any: a send or receive, also in a Gyre.select, happens completely or not at all. Decides when a
# message can move, and never waits itself: waiters are cases of a Gyre::Selection.

require "gyre/sync/selection"
require "gyre/sync/spin_lock"

module Gyre
  # Messages in sending order, at most {#capacity} unreceived ones. With a capacity of 0, {#send}
  # waits until a caller receives. Every method may be called from any thread, but not in a signal
  # handler.
  class Channel
    include Enumerable

    # Raised by a send into a closed channel, and by a receive from one that has no messages left.
    # It ends a `loop`.
    class ClosedError < ClosedQueueError
      def initialize(message = "the channel is closed")
        super
      end
    end

    # The result of a receive without a message.
    # @api private
    NOTHING = Object.new.freeze

    # @return [Integer, Float] how many messages it holds
    attr_reader :capacity

    # @param capacity [Integer, Float] at least 0; Float::INFINITY: {#send} never waits
    def initialize(capacity = 0)
      unless (capacity.is_a?(Integer) && capacity >= 0) || capacity == Float::INFINITY
        raise ArgumentError, "capacity must be an Integer of 0 or more, or Float::INFINITY, not #{capacity.inspect}"
      end

      @capacity = capacity
      @lock = SpinLock.new
      @messages = []
      @receivers = {}.compare_by_identity # Selection::Receive => true, waiting; only without messages
      @senders = {}.compare_by_identity # Selection::Send => true, waiting; only without room
      @closed = false
    end

    # Sends a message; waits while there is no room.
    #
    # @param message [Object]
    # @param timeout [Numeric, nil] seconds
    # @return [self]
    # @raise [ClosedError] when it is closed, or closed while this waits
    # @raise [TimeoutError] when there is no room in time; the message was not sent then
    def send(message, timeout: nil)
      return self if synchronize { send_now(message) }

      selection = Selection.new.send(self, message)
      selection.call(timeout) { raise TimeoutError, "no room in the channel for #{timeout} s" }
      self
    end

    # (see #send)
    def <<(message)
      send(message)
    end

    # Takes the oldest message; waits for one if necessary. A message for a receiver that is stopped
    # just then goes to the next.
    #
    # @param timeout [Numeric, nil] seconds
    # @return [Object]
    # @raise [ClosedError] when it is closed and empty
    # @raise [TimeoutError] when there is none in time
    def receive(timeout: nil)
      message = synchronize { receive_now }
      return message unless message.equal?(NOTHING)

      selection = Selection.new.receive(self)
      selection.call(timeout) { raise TimeoutError, "nothing in the channel for #{timeout} s" }
    end

    # Receives until the channel is closed and empty.
    # @yieldparam message [Object]
    # @return [self]
    def each
      return enum_for(:each) unless block_given?

      while true
        message = begin
          receive
        rescue ClosedError
          return self
        end
        yield message
      end
    end

    # Ends sending; messages in the channel can still be received. Raises {ClosedError} in a waiting
    # {#send}, and in a {#receive} that gets nothing any more.
    # @return [self]
    def close
      synchronize do
        @closed = true
        [@receivers, @senders].each do |waiting|
          waiting.shift.first.take(NOTHING) until waiting.empty?
        end
      end
      self
    end

    # @return [Boolean]
    def closed? = @closed

    # @return [Integer] messages not received yet
    def size = @messages.size

    # @return [Boolean]
    def empty? = @messages.empty?

    # @return [String] its name in print_hierarchy
    # @api private
    def label = "a channel of #{@capacity}"

    # @return [String]
    def inspect
      waiting = "#{@receivers.size} receiving, #{@senders.size} sending"
      "#<#{self.class} #{@closed ? "closed, " : ""}#{size} of #{@capacity}, #{waiting}>"
    end

    # @yield with its lock
    # @api private
    def synchronize(&block) = @lock.synchronize(&block)

    # @api private
    # @return [Boolean] whether the message was sent; needs the lock, like the methods below
    # @raise [ClosedError]
    def send_now(message)
      raise ClosedError if @closed
      return true if hand_over(message)
      return false unless @messages.size < @capacity

      @messages.push(message)
      true
    end

    # @api private
    # @return [Object] a message, or NOTHING
    # @raise [ClosedError]
    def receive_now
      message = @messages.empty? ? take_from_sender : @messages.shift
      raise ClosedError if @closed && message.equal?(NOTHING)

      let_senders_in
      message
    end

    # Registers a waiting case.
    # @api private
    # @param one [Selection::Receive, Selection::Send]
    def wait_for(one)
      waiting_like(one)[one] = true
    end

    # @api private
    # @param one [Selection::Receive, Selection::Send]
    def forget(one)
      synchronize { waiting_like(one).delete(one) }
    end

    # Takes back a message that its receiver could not take, for the next receiver.
    # @api private
    def give_back(message)
      synchronize { hand_over(message) || @messages.unshift(message) }
    end

    private

    def waiting_like(one) = one.is_a?(Selection::Send) ? @senders : @receivers

    # Returns whether a receiver was waiting for a message.
    def hand_over(message)
      while (receiver = @receivers.shift&.first)
        return true if receiver.take(message)
      end
      false
    end

    def take_from_sender
      while (sender = @senders.shift&.first)
        return sender.message if sender.take(nil)
      end
      NOTHING
    end

    def let_senders_in
      while @messages.size < @capacity
        message = take_from_sender
        return if message.equal?(NOTHING)

        @messages.push(message)
      end
    end
  end
end
