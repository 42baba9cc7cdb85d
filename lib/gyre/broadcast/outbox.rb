# frozen_string_literal: true

# A queue of messages to another process, in order and in bounded memory. Drops, counts and reports
# messages beyond the limit. Filled by Relay and the supervisor, emptied by one fiber.

require "gyre/broadcast/unloaded"

module Gyre
  module Broadcast
    class Outbox
      BYTES_LIMIT = 8 << 20

      # The block gets a text when the outbox begins or stops dropping messages.
      def initialize(bytes_limit = BYTES_LIMIT, &report)
        @bytes_limit = bytes_limit
        @report = report
        @texts = []
        @lock = Thread::Mutex.new
        @filled = Thread::ConditionVariable.new
        @bytes = @dropped = 0
      end

      # Adds a message; drops it if the queue is full. Never waits; any thread may call it.
      def offer(text)
        @lock.synchronize do
          next add(text) if @bytes < @bytes_limit

          @dropped += 1
          @report&.call("does not take its messages: the next ones for it are dropped") if @dropped == 1
        end
      end

      # Adds a message regardless of the limit.
      def push(text) = @lock.synchronize { add(text) }

      # Waits for messages, and takes all of them.
      def take
        @lock.synchronize do
          @filled.wait(@lock) while @texts.empty?
          recovered if @dropped.positive?
          @bytes = 0
          @texts.slice!(0..)
        end
      end

      # Returns the number of waiting messages.
      def size = @lock.synchronize { @texts.count { |text| !text.empty? } }

      # Returns waiting messages.
      def to_s = @lock.synchronize { @texts.join }

      private

      def add(text)
        @texts << text
        @bytes += text.bytesize
        @filled.signal
      end

      def recovered
        @report&.call("takes its messages again; #{@dropped} were dropped")
        @dropped = 0
      end
    end
  end
end
