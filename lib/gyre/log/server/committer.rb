# frozen_string_literal: true

# Moves lines from the ingest's sinks to the outputs, and acknowledges records. The server runs it
# in a task and calls {#commit_soon}, {#flush} and {#reopen}. Uses no files or sockets.
#
#   pass ──► each writer, when its output is free: take the sink ──► write ──► sync ──► the sessions of the batch acknowledge
#     every interval;               a task for each output (OutputWriter): a stuck output holds up
#     10 ms after commit_soon       no other; what comes meanwhile waits in the sink, and goes in one batch
#
# A session is settled after each batch with its client's records. It is also settled after a pass,
# because some of its records may have no route.
require "gyre/sync/barrier"
require "gyre/log/server/committer/output_writer"

module Gyre
  module Log
    class Committer
      # Minimum of `interval`, in seconds.
      SHORTEST_S = 0.001

      # `sync_interval` is the time between syncs of unacknowledged lines (nil or 0: never), and
      # `commit_interval` the delay of {#commit_soon}. Both are in seconds.
      def initialize(pairs, interval: 1.0, sync_interval: 60.0, commit_interval: 0.01)
        @writers = pairs.map { |sink, output| OutputWriter.new(sink, output, method(:stored)) { @written&.call } }
        @interval = [interval, SHORTEST_S].max
        @sync_interval = sync_interval if sync_interval&.positive?
        @commit_interval = commit_interval
        @wake = Condition.new
        @fresh = {}.compare_by_identity # sessions whose records have come since the last pass
        @pending = {} # client id => session that has records not durable yet
        @commit_at = nil
        @urgent = false
        @written = nil
      end

      # Runs until an output raises a permanent error.
      def run
        barrier = Barrier.new
        @writers.each { |writer| barrier.async("log output #{writer}") { writer.run } }
        barrier.async("log committer") { keep_time }
        barrier.wait
      ensure
        barrier.stop
      end

      # Orders a pass within the commit interval, for records of `session`. Called after each read.
      def commit_soon(session = nil)
        @pending[session.client_id] = @fresh[session] = session if session
        return if @commit_at

        @commit_at = Clock.now + @commit_interval
        @wake.signal
      end

      # Orders a pass now and another within the commit interval, so that the end of a burst does
      # not wait for the timer.
      def commit_now
        @urgent = true
        @wake.signal
      end

      # Writes and syncs all lines that are present. Returns false after the timeout; {#bytes} then
      # returns the bytes that are still being written.
      def flush(timeout = nil) = await(timeout, :order_sync, :await)

      # Syncs and reopens each output after its pending writes. Returns true if all succeeded.
      def reopen(timeout = nil) = await(timeout, :order_reopen, :await_reopened)

      # Called before the server ends. Leaves spilled lines on disk, and waits for current writes up
      # to `timeout`.
      def rest(timeout)
        deadline = Clock.now + timeout
        @writers.each { |writer| writer.rest([deadline - Clock.now, 0].max) }
      end

      def resume = @writers.each(&:resume)

      # The block is called after each write, in the writer's task.
      def on_written(&block) = @written = block

      def stuck_bytes = @writers.sum(&:stuck_bytes)

      def troubles = @writers.filter_map(&:trouble)

      def bytes = @writers.sum(&:bytes)

      def status(now = Clock.now) = @writers.map { |writer| writer.status(now) }

      private

      def await(timeout, order, wait)
        pass
        deadline = timeout && (Clock.now + timeout)
        @writers.map(&order).zip(@writers).all? { |round, writer| writer.public_send(wait, round, deadline) }
      end

      def keep_time
        now = Clock.now
        write_at = now + @interval
        sync_at = now + @sync_interval if @sync_interval
        loop do
          now = Clock.now
          if sync_at && now >= sync_at
            @writers.each(&:order_sync)
            sync_at = now + @sync_interval
          end
          if @urgent || now >= write_at || (@commit_at && now >= @commit_at)
            again_at = (now + @commit_interval if @urgent)
            pass
            @commit_at = again_at
            write_at = now + @interval
          end
          @wake.wait(timeout: [[write_at, @commit_at, sync_at].compact.min - Clock.now, 0].max)
        end
      end

      def pass
        @commit_at = nil
        @urgent = false
        @writers.each(&:order_write)
        fresh, @fresh = @fresh, {}.compare_by_identity
        fresh.each_key { |session| settle(session) }
      end

      # Called after a writer has stored a batch.
      def stored(sink, clients)
        clients.each do |client_id, sequence|
          session = @pending[client_id] or next
          session.stored(sink, sequence)
          settle(session)
        end
      end

      def settle(session)
        session.settle
        @pending.delete(session.client_id) unless session.pending?
      end
    end
  end
end
