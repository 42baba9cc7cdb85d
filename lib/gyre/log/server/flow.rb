# frozen_string_literal: true

# Limits the messages in memory. Above the limit, nothing is read until half of the memory is free.
# A connection with messages for a full output is paused until half of the output's queue is free.
# The whole connection waits, because its messages must stay in order. Called by hub and
# connections.

require "gyre/settings/units"

module Gyre
  module Log
    class Flow
      # Bytes to read before the outputs run; they fit the processor's caches.
      BATCH_BYTES = 1_048_576
      CHECK_S = 0.01
      REPORT_S = 10

      # Resumes all peers, even if some fail. Then raises the first failure.
      def self.resume(waiting)
        failure = nil
        waiting.each do |peer|
          peer.resume
        rescue StandardError => error
          failure ||= error
        end
        raise failure if failure
      end

      attr_reader :pauses # times that memory was full

      # The loop yields :full while memory is full, and :room when {#release} must be called.
      def initialize(loop, server)
        @loop, @server, @routing, @ingest, @committer = loop, server, server.routing, server.ingest, server.committer
        @limit = server.limits.memory_bytes_limit
        @parked, @queued = {}.compare_by_identity, {}.compare_by_identity # for memory; for sinks, peer => sinks
        @full = @held = @emitted = false
        @pauses = @read_bytes = @report_at_s = 0
        @fresh = false # messages have come for which no acknowledged client waits
        @dropped = Hash.new(0).compare_by_identity # as reported
        @committer.on_written { written }
      end

      def bytes = @ingest.bytesize + @committer.bytes

      # True while the server reads no messages.
      def paused? = @full || @held

      # True while no socket may be read and no connection accepted.
      def held? = @held

      def room? = bytes < @limit * 2

      # True if messages exceed `limit`, not counting queues of stuck outputs.
      def crowded?(limit = @limit)
        all = bytes
        all > limit && all - @committer.stuck_bytes > limit
      end

      def received(session, bytes = 0, peer = nil)
        session ? @committer.commit_soon(session) : @fresh = true
        @read_bytes += bytes
        hit = @ingest.crowded?
        wait(peer, @routing.sinks.select(&:hit?)) if hit && peer
        @committer.commit_now if fill || hit
      end

      # Lets a peer wait until memory is free.
      def park(peer) = @parked[peer] = true

      def forget(connection)
        @parked.delete(connection)
        @queued.delete(connection)
      end

      # While a peer waits for a sink, pauses each further peer with a full sink before it reads.
      # `service` is nil for syslog and JSON, whose messages state it: these peers read once more.
      def about_to_read(peer, service)
        wait(peer, @routing.sinks_of(service).select(&:blocked?)) if service && !@queued.empty?
      end

      # Counts connections that wait for a sink. Copies the list: another thread may call this.
      def queued(sink) = @queued.values.count { |sinks| sinks.include?(sink) }

      # Resumes connections whose sinks have room again. Called for the key :room.
      def release
        @emitted = false
        free = @queued.select { |_, sinks| sinks.all?(&:room?) }.keys
        free.each { |peer| @queued.delete(peer) }
        Flow.resume(free)
      end

      # Reports messages dropped since the last report.
      def tick(now_s)
        return if now_s < @report_at_s

        @routing.pairs.each do |sink, output|
          count = sink.dropped - @dropped[sink]
          next unless count.positive?

          @server.report("#{output}: #{Units.count(count, "message was", "messages were")} dropped, for its queue is full")
          @dropped[sink] += count
          @report_at_s = now_s + REPORT_S
        end
      end

      # Lets the outputs run after BATCH_BYTES have been read.
      def yield_to_outputs
        return unless @read_bytes > BATCH_BYTES

        @committer.commit_now if @fresh
        @fresh = false
        @read_bytes = 0
        sleep 0
      end

      # Stops all reads and accepts during the block.
      def hold
        @held = true
        yield
      ensure
        @held = false
        resume_all
      end

      # Called for the key :full. Resumes connections if half of the memory is free.
      def check(connections)
        return evict_incomplete(connections) if crowded?(@limit / 2)

        @loop.unwatch(:full)
        @full = false
        resume_all
      end

      private

      # Returns true when memory becomes full. The caller then makes the outputs write.
      def fill
        return false if @full || !crowded?

        @pauses += 1
        @loop.watch_timer(:full, CHECK_S, CHECK_S)
        @full = true
      end

      # Called in the committer's tasks after a write.
      def written
        return if @emitted || @queued.empty?

        @emitted = true
        @loop.emit(:room)
      end

      def wait(peer, sinks)
        return if sinks.empty? || sinks.all?(&:room?)

        @queued[peer] = sinks
        peer.pause
      end

      def resume_all
        return if paused?

        parked, @parked = @parked.keys, {}.compare_by_identity
        Flow.resume(parked)
      end

      # Closes connections with the largest incomplete messages, which could keep memory full.
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
