# frozen_string_literal: true

# A bounded channel between tasks and threads. Passes messages straight to waiting receivers. A send
# or receive, even in a Gyre.select, happens completely or not at all. Every wait is a case of a
# Gyre::Selection.

require "gyre/sync/selection"

module Gyre
  # Holds up to {#capacity} messages in order. If the capacity is 0, {#send} waits for a receiver.
  # Any thread may call its methods, but no signal handler.
  class Channel
    include Enumerable

    # Raised by a send into a closed channel, or a receive from a closed empty one. Ends a `loop`.
    class ClosedError < ClosedQueueError
      def initialize(message = "the channel is closed") = super
    end

    # @api private
    NOTHING = Object.new.freeze

    # @return [Integer, Float] maximum messages held
    attr_reader :capacity

    # @param capacity [Integer, Float] at least 0; with Float::INFINITY {#send} never waits
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

    # Sends a message; waits for room.
    # @param message [Object]
    # @param timeout [Numeric, nil] seconds
    # @return [self]
    # @raise [ClosedError] it is closed, or gets closed
    # @raise [TimeoutError] no room in time; the message was not sent
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

    # Takes the oldest message; waits if there is none. If a receiver is stopped, the next receiver
    # gets its message.
    # @param timeout [Numeric, nil] seconds
    # @return [Object]
    # @raise [ClosedError] it is closed and empty
    # @raise [TimeoutError] no message in time
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

    # Ends sending; remaining messages can be received. Raises {ClosedError} in every waiting
    # {#send} and {#receive}.
    # @return [self]
    def close
      synchronize do
        @closed = true
        [@receivers, @senders].each { |waiting| waiting.shift.first.take(NOTHING) until waiting.empty? }
      end
      self
    end

    # @return [Boolean]
    def closed? = @closed

    # @return [Integer] messages not received
    def size = @messages.size

    # @return [Boolean]
    def empty? = @messages.empty?

    # @return [String] for print_hierarchy
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
    # @return [Boolean] whether the message was sent; requires the lock, like the methods below
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

    # @api private
    # @param one [Selection::Receive, Selection::Send]
    def wait_for(one) = waiting_like(one)[one] = true

    # @api private
    # @param one [Selection::Receive, Selection::Send]
    def forget(one) = synchronize { waiting_like(one).delete(one) }

    # Passes on a message that a stopped receiver could not use.
    # @api private
    def give_back(message) = synchronize { hand_over(message) || @messages.unshift(message) }

    private

    def waiting_like(one) = one.is_a?(Selection::Send) ? @senders : @receivers

    # Passes a message to a waiting receiver; false if there is none.
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
