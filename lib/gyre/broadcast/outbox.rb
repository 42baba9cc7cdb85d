# frozen_string_literal: true

# Messages on their way to another process, in order and in bounded memory: those beyond are
# dropped, counted and reported. Relay and the supervisor fill it; one fiber takes them and sends
# them.

module Gyre
  module Broadcast
    # Encoded messages for one receiver.
    # @api private
    class Outbox
      BYTES_LIMIT = 8 << 20

      # The block is called with a text when messages begin to be dropped, and when that is over.
      def initialize(bytes_limit = BYTES_LIMIT, &report)
        @bytes_limit = bytes_limit
        @report = report
        @texts = []
        @lock = Thread::Mutex.new
        @filled = Thread::ConditionVariable.new
        @bytes = @dropped = 0
      end

      # Never waits, and any thread may call it. Drops the message if too many bytes wait.
      def offer(text)
        @lock.synchronize do
          next add(text) if @bytes < @bytes_limit

          @dropped += 1
          @report&.call("does not take its messages: the next ones for it are dropped") if @dropped == 1
        end
      end

      # Adds a message that may not be dropped.
      def push(text) = @lock.synchronize { add(text) }

      # Waits for messages and takes all.
      def take
        @lock.synchronize do
          @filled.wait(@lock) while @texts.empty?
          recovered if @dropped.positive?
          @bytes = 0
          @texts.slice!(0..)
        end
      end

      # The messages that wait.
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
