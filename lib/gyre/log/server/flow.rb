# frozen_string_literal: true

# Limits the messages in memory: backpressure for all connections (backpressure.rb), and a queue per
# output (queues.rb). Called by the hub and its connections.

require "gyre/log/server/backpressure"
require "gyre/log/server/queues"

module Gyre
  module Log
    class Flow
      # Bytes read before the outputs get a turn; fits the processor's caches.
      BATCH_BYTES = 1_048_576

      attr_reader :backpressure, :queues

      def initialize(loop, server)
        @ingest, @committer = server.ingest, server.committer
        @limit = server.limits.memory_bytes_limit
        @queues = Queues.new(loop, server)
        @backpressure = Backpressure.new(loop, @limit, -> { @committer.stuck_bytes }) { bytes }
        @read_bytes = 0
        @fresh = false # messages have come for which no acknowledged client waits
      end

      def bytes = @ingest.bytesize + @committer.bytes

      def paused? = @backpressure.on?

      def held? = @backpressure.held?

      def room? = bytes < @limit * 2

      def received(session, bytes = 0, peer = nil)
        session ? @committer.commit_soon(session) : @fresh = true
        @read_bytes += bytes
        crowded = @ingest.crowded?
        @queues.park(peer) if crowded && peer
        @committer.commit_now if @backpressure.check || crowded
      end

      def forget(connection)
        @backpressure.forget(connection)
        @queues.forget(connection)
      end

      # Lets the outputs run. True while received acknowledged messages wait for a commit.
      def yield_to_outputs
        return unless @read_bytes > BATCH_BYTES

        @committer.commit_now if @fresh
        @fresh = false
        @read_bytes = 0
        sleep 0
      end

      # Closes connections with the largest incomplete messages, which could keep backpressure on
      # endlessly.
      def evict_incomplete(connections)
        excess = @ingest.incomplete - (@limit / 2)
        return unless excess.positive?

        connections.sort_by { |connection| -connection.incomplete }.each do |connection|
          break unless excess.positive?

          excess -= connection.incomplete
          connection.drop_incomplete
        end
      end
    end
  end
end
