# frozen_string_literal: true

# Writes lines in a thread, so that a stuck pipe or slow disk blocks neither the loop nor requests.
# Drops and counts lines beyond its limit. Used by the access log, and by the server's log while its
# pipe is full.

require "gyre/clock"

module Gyre
  module Web
    class LineWriter
      BYTES_LIMIT = 1024 * 1024
      # Seconds for which lines are gathered: a busy loop wakes the thread at most 100 times a
      # second.
      GATHER_S = 0.01
      # Pending bytes at which {#add} lets the thread run before the loop's time slice (0.1 s) ends.
      PASS_BYTES = 64 * 1024
      # Bytes that a writable pipe takes without waiting, in one piece (pipe(7)).
      PIPE_BYTES = 4096

      # True for a pipe or socket.
      def self.pipe?(io) = io.is_a?(IO) && io.stat.then { |stat| stat.pipe? || stat.socket? }

      attr_reader :dropped

      # The block gets whole lines and the number dropped since its last call. An exception of the
      # block ends the thread; the next {#add} starts another.
      def initialize(bytes_limit: BYTES_LIMIT, &write)
        @bytes_limit = bytes_limit
        @write = write
        @lock = Mutex.new
        @change = ConditionVariable.new
        @lines = +""
        @dropped = @told = 0
        @busy = @closed = false
      end

      # Queues whole lines without waiting; false if they were dropped.
      def add(text)
        waiting = @lock.synchronize do
          # A text longer than the limit is accepted if no lines wait.
          if @closed || (!@lines.empty? && @lines.bytesize + text.bytesize > @bytes_limit)
            @dropped += text.count("\n")
            next
          end

          before = @lines.bytesize
          @lines << text
          run if before.zero? || (before < PASS_BYTES && @lines.bytesize >= PASS_BYTES)
          @lines.bytesize
        end
        Thread.pass if waiting && waiting >= PASS_BYTES && !@busy
        !waiting.nil?
      end

      def empty? = @lines.empty? && !@busy

      # Writes pending lines and ends the thread. Returns the number of lines dropped since the
      # block's last call.
      def close(limit_s = 1)
        thread = @lock.synchronize do
          @closed = true
          @change.broadcast
          @thread
        end
        thread.kill.join(0.1) unless thread.nil? || thread.join(limit_s)
        @lock.synchronize do
          @dropped += @lines.count("\n")
          @lines.clear
          @dropped - @told
        end
      end

      private

      # Wakes the thread, or starts it if there is none, as in a forked child. Requires the lock.
      def run
        return @change.broadcast if @thread&.alive?

        @busy = false
        @thread = Thread.new { work }
        @thread.name = "gyre log"
      end

      def work
        while (lines, dropped = take)
          @write.call(lines, dropped)
        end
      end

      def take
        @lock.synchronize do
          @busy = false
          @change.wait(@lock) while @lines.empty? && !@closed
          gather
          return if @lines.empty?

          @busy = true
          lines, @lines = @lines, +""
          dropped = @dropped - @told
          @told = @dropped
          [lines, dropped]
        end
      end

      def gather
        until_s = Clock.now + GATHER_S
        while !@closed && @lines.bytesize < PASS_BYTES && (left_s = until_s - Clock.now).positive?
          @change.wait(@lock, left_s)
        end
      end
    end
  end
end
