# frozen_string_literal: true

# Writes lines in a thread of its own, so that a pipe which nothing reads, a full disk's queue or a
# network folder that hangs holds up neither the loop nor a request. What waits is bounded: lines
# beyond that are dropped and counted. The access log and, while its pipe is full, the server's own
# log have one each. It opens and closes nothing.

require "gyre/clock"

module Gyre
  module Web
    # The thread begins with the first line.
    class LineWriter
      BYTES_LIMIT = 1024 * 1024
      # Lines of so much time are written together: so a busy loop hands over a hundred times a
      # second at most.
      GATHER_S = 0.01
      # From so many bytes on the thread gets its turn at once, which it would otherwise have to
      # wait for as long as the loop computes (Ruby's turns are 0.1 s).
      PASS_BYTES = 64 * 1024
      private_constant :GATHER_S, :PASS_BYTES

      # @return [Integer] lines that were dropped
      attr_reader :dropped

      # @param bytes_limit [Integer] of lines that wait
      # @yieldparam lines [String] whole lines, in the thread
      # @yieldparam dropped [Integer] lines that were dropped before them, since the last call
      # @yieldreturn [void] what it raises ends the thread and is reported by Ruby
      def initialize(bytes_limit: BYTES_LIMIT, &write)
        @bytes_limit = bytes_limit
        @write = write
        @lock = Mutex.new
        @change = ConditionVariable.new
        @lines = +""
        @jobs = []
        @dropped = @told = 0
        @busy = @closed = false
      end

      # Leaves a text of whole lines; never waits for what takes them.
      #
      # @param text [String]
      # @return [Boolean] false: it was dropped, too many bytes wait
      def add(text)
        waiting = @lock.synchronize do
          # One text that is too long by itself goes alone.
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

      # Runs a block in the thread, between two writes and after the lines that came before it.
      #
      # @param limit_s [Numeric, nil] how long to wait for its end
      # @return [Object, nil] what it returned; nil when the time is over
      # @raise what it raised
      def call(limit_s = nil, &block)
        answer = Thread::Queue.new
        @lock.synchronize do
          @jobs << [block, answer]
          run
        end
        result, error = pop(answer, limit_s)
        raise error if error

        result
      end

      # @return [Boolean] whether nothing waits and nothing is being written
      def empty? = @lines.empty? && !@busy

      # Writes what waits and ends the thread; what is added later is dropped.
      #
      # @param limit_s [Numeric] what that may take; then the lines that are left are dropped
      # @return [Integer] lines that were dropped since the block was called last
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

      # With the lock. A forked child has the lines, but not the thread.
      def run
        return @change.broadcast if @thread&.alive?

        @busy = false
        @thread = Thread.new { work }
        @thread.name = "gyre log"
      end

      def work
        while (lines, dropped, jobs = take)
          @write.call(lines, dropped) unless lines.empty?
          jobs.each { |block, answer| answer << result(block) }
        end
      end

      def take
        @lock.synchronize do
          @busy = false
          @change.wait(@lock) while @lines.empty? && @jobs.empty? && !@closed
          gather
          return if @lines.empty? && @jobs.empty?

          @busy = true
          lines, @lines = @lines, +""
          jobs, @jobs = @jobs, []
          dropped = @dropped - @told
          @told = @dropped
          [lines, dropped, jobs]
        end
      end

      def gather
        until_s = Clock.now + GATHER_S
        while @jobs.empty? && !@closed && @lines.bytesize < PASS_BYTES && (left_s = until_s - Clock.now).positive?
          @change.wait(@lock, left_s)
        end
      end

      def result(block)
        [block.call, nil]
      rescue StandardError => error
        [nil, error]
      end

      # Ruby 3.1 has no Queue#pop with a limit of time.
      def pop(answer, limit_s)
        return answer.pop if limit_s.nil?

        until_s = Clock.now + limit_s
        sleep(0.002) while answer.empty? && Clock.now < until_s
        answer.pop unless answer.empty?
      end
    end
  end
end
