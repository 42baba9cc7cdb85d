# frozen_string_literal: true

# Writes one sink's lines to its output in a task. Takes all lines when a write is ordered and the
# output is free. Made by Committer.
#
#   orders ──► @round ──(the task is free)──► write ──► sync ──► reopen, as far as ordered ──► served
#                 └─ orders of the meantime go into the next round

require "gyre/sync/condition"

module Gyre
  module Log
    class Committer
      class OutputWriter
        # Orders that are served together. `kept`: a reopen failed, and the old file stays in use.
        Round = Struct.new(:write, :sync, :reopen, :served, :kept) { def empty? = !(write || sync || reopen) }

        # `stored` is called with the sink and {client id => sequence number} of a durable batch.
        # The block runs after each written batch.
        def initialize(sink, output, stored, &written)
          @sink, @output, @stored, @when_written = sink, output, stored, written
          @data = String.new(encoding: Encoding::BINARY) # one batch after the other, in the same memory
          @written = 0
          @empty_at = Clock.now # when the sink was last seen empty
          @writing_since = @unsynced_since = nil
          @round = Round.new
          @work = Condition.new
          @served = Condition.new
        end

        def order_write
          @empty_at = Clock.now if @sink.bytesize.zero?
          order { |round| round.write = true }
        end

        # Orders a sync after all ordered writes. Returns a round for {#await}.
        def order_sync = order { |round| round.sync = true }

        # Orders a reopen after all ordered writes. Returns a round for {#await_reopened}.
        def order_reopen
          @output.reopen_soon if @writing_since && @output.respond_to?(:reopen_soon)
          order { |round| round.reopen = true }
        end

        # Waits until the round is served or, if the output fails, until no bytes wait for it. False
        # after the deadline.
        def await(round, deadline) = wait_until(deadline) { round.served || idle? }

        # Waits until the round is served. True if earlier writes are durable and the old file is
        # closed.
        def await_reopened(round, deadline) = wait_until(deadline) { round.served } && !round.kept

        def rest(timeout_s) = @output.rest(timeout_s)

        def resume = @output.resume

        def run
          @output.prepare
          loop do
            @work.wait while @round.empty?
            round, @round = @round, Round.new
            serve(round)
          end
        end

        def to_s = @output.to_s

        def bytes = @writing_since ? @data.bytesize : 0

        def unwritten_s(now)
          since = @writing_since || (@empty_at if @sink.bytesize.positive?)
          since ? [now - since, 0.0].max : 0.0
        end

        def unsynced_s(now) = [unwritten_s(now), @unsynced_since ? now - @unsynced_since : 0.0].max

        def stuck_bytes = @output.trouble || @sink.full? ? bytes + @sink.bytesize : 0

        def trouble = ("#{self}: #{@output.trouble}" if @output.trouble && !idle?)

        def status(now)
          { output: to_s, bytes: bytes + @sink.bytesize, written: @written, dropped: @sink.dropped, **@output.status,
            unwritten_s: unwritten_s(now).round(3), unsynced_s: unsynced_s(now).round(3) }
        end

        private

        def order
          round = @round
          yield round
          @work.signal
          round
        end

        def serve(round)
          take if round.write
          sync if round.sync
          round.kept = @output.reopen == false if round.reopen
          round.served = true
          @served.signal
        end

        def take
          _, clients = @sink.take(@data)
          return unless clients

          write(clients)
          return if clients.empty?

          sync
          @stored.call(@sink, clients)
        end

        def write(clients)
          @writing_since, @empty_at = @empty_at, Clock.now
          @output.write(@data, clients)
          @unsynced_since ||= @writing_since
          @writing_since = nil
          @written += @data.bytesize
          @sink.written
          @when_written&.call
        end

        def sync
          @output.sync if @unsynced_since
          @unsynced_since = nil
        end

        # True if the output fails, but no bytes wait for it.
        def idle? = @output.trouble && bytes.zero? && @sink.bytesize.zero? && @unsynced_since.nil?

        def wait_until(deadline)
          until yield
            left = deadline && (deadline - Clock.now)
            return false if left && left <= 0

            @served.wait(timeout: left)
          end
          true
        end
      end
    end
  end
end
