# frozen_string_literal: true

# Takes what the ingest has put into the sinks to the outputs, and acknowledges it. Made by the
# server, which runs it in a task and calls `commit_soon`, `flush`, `reopen` and `bytes`. Without
# formats, files and sockets.
#
#   pass ──► each lane, when its output is free: take the sink ──► write ──► sync ──► the sessions of the batch acknowledge
#     every interval;               one task an output (Committer::Lane): one that stands still holds up
#     10 ms after commit_soon       no other; what comes meanwhile waits in the sink, and goes in one batch
#
# A session is settled when a lane has stored records of its client, and after a pass, for what no
# route wanted.
require "gyre/clock"
require "gyre/sync/condition"
require "gyre/sync/barrier"
require "gyre/log/server/committer/lane"

module Gyre
  module Log
    # Belongs to one loop. All times are seconds.
    class Committer
      # Between two passes, also for an interval of 0.
      SHORTEST_S = 0.001

      # @param pairs [Array<Array(Sink, Output)>]
      # @param interval [Numeric] between two passes
      # @param sync_interval [Numeric, nil] between two syncs of what no acknowledged client waits
      #   for; nil or 0: never
      # @param commit_interval [Numeric] how long after {#commit_soon} a pass is made
      def initialize(pairs, interval: 1.0, sync_interval: 60.0, commit_interval: 0.01)
        @lanes = pairs.map { |sink, output| Lane.new(sink, output, method(:stored)) { @written&.call } }
        @interval = [interval, SHORTEST_S].max
        @sync_interval = sync_interval if sync_interval&.positive?
        @commit_interval = commit_interval
        @wake = Condition.new
        @fresh = {}.compare_by_identity # sessions whose records have come since the last pass
        @pending = {} # by client id: not all of whose records are durable
        @commit_at = nil
        @stopping = @urgent = false
        @written = nil
      end

      # Works until {#stop}. What an output raises (none raises for a full disk or the like) ends
      # it.
      def run
        barrier = Barrier.new
        @lanes.each { |lane| barrier.async("log output #{lane}") { lane.run } }
        barrier.async("log committer") { keep_time }
        barrier.wait
      ensure
        barrier.stop
      end

      # Something waits: a pass is made within the commit interval. Cheap, for each read.
      # @param session [Session, nil] whose records came
      def commit_soon(session = nil)
        @pending[session.client_id] = @fresh[session] = session if session
        return if @commit_at

        @commit_at = Clock.now + @commit_interval
        @wake.signal
      end

      # Much waits: a pass is made as soon as this loop lets the committer's task run, and one more
      # within the commit interval, so that a burst's end does not wait for the timer.
      def commit_now
        @urgent = true
        @wake.signal
      end

      # Writes and syncs all that there is at this moment, and waits for it.
      # @param timeout [Numeric, nil]
      # @return [Boolean] false when the time was over first; {#bytes} is what was left
      def flush(timeout = nil)
        pass
        deadline = timeout && (Clock.now + timeout)
        @lanes.map(&:order_sync).zip(@lanes).all? { |ticket, lane| lane.await(ticket, deadline) }
      end

      # Has the outputs synced, closed and reopened, each after what it has to write.
      # @param timeout [Numeric, nil] how long to wait for that; nil: not at all
      # @return [Boolean] whether all have done it by then
      def reopen(timeout = nil)
        pass
        tickets = @lanes.map(&:order_reopen)
        deadline = timeout && (Clock.now + timeout)
        deadline ? tickets.zip(@lanes).all? { |ticket, lane| lane.await_reopened(ticket, deadline) } : false
      end

      # The server is about to end, and all is stored: what is spilled stays there from now on.
      # @param timeout [Numeric] for what is being written
      def rest(timeout)
        deadline = Clock.now + timeout
        @lanes.each { |lane| lane.rest([deadline - Clock.now, 0].max) }
      end

      # The server goes on after {#rest}.
      def resume = @lanes.each(&:resume)

      # @yield when an output has written, in a task of its own
      def on_written(&block)
        @written = block
      end

      # @return [Integer] bytes that wait for outputs which stand still
      def stuck_bytes = @lanes.sum(&:stuck_bytes)

      # @return [Array<String>] the outputs that cannot write what they have at present, and why
      def troubles = @lanes.filter_map(&:trouble)

      # Ends {#run}, without a flush.
      def stop
        @stopping = true
        @wake.signal
        @lanes.each(&:stop)
      end

      # @return [Integer] bytes that were taken from sinks and are not written; those in the sinks
      #   are the ingest's
      def bytes = @lanes.sum(&:bytes)

      # @return [Float] age of the oldest bytes that are not written, in seconds; 0.0 when there are
      #   none
      def unwritten_s(now = Clock.now)
        @lanes.map { |lane| lane.unwritten_s(now) }.max || 0.0
      end

      # @return [Float] age of the oldest bytes that are not durable
      def unsynced_s(now = Clock.now)
        @lanes.map { |lane| lane.unsynced_s(now) }.max || 0.0
      end

      # @return [Array<Hash>] for the status: output, bytes, written, dropped, trouble, spilled,
      #   unwritten_s, unsynced_s
      def status(now = Clock.now)
        @lanes.map { |lane| lane.status(now) }
      end

      private

      def keep_time
        now = Clock.now
        write_at = now + @interval
        sync_at = now + @sync_interval if @sync_interval
        until @stopping
          now = Clock.now
          if sync_at && now >= sync_at
            @lanes.each(&:order_sync)
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
        @lanes.each(&:order_write)
        fresh, @fresh = @fresh, {}.compare_by_identity
        fresh.each_key { |session| settle(session) }
      end

      # A lane has stored a batch.
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
