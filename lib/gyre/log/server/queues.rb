# frozen_string_literal: true

# Pauses connections with messages for an output with a full queue, until half of it is free. Called
# by the hub after each read. The whole connection waits, as its messages stay in order.

require "gyre/settings/units"

module Gyre
  module Log
    class Queues
      REPORT_S = 10

      # The loop receives the key :room when {#release} is due.
      def initialize(loop, server)
        @loop, @server, @routing = loop, server, server.routing
        @parked = {}.compare_by_identity
        @emitted = false
        @dropped = Hash.new(0).compare_by_identity # as reported
        @report_at_s = 0
        server.committer.on_written { written }
      end

      # Pauses the peer if its last messages were for full sinks.
      def park(peer) = wait(peer, @routing.sinks.select(&:hit?))

      # Checks sinks before a read, or many ready connections would each read once for a full queue.
      # `service` may still be unknown (nil).
      def about_to_read(peer, service)
        wait(peer, @routing.sinks_of(service).select(&:blocked?)) if service && !@parked.empty?
      end

      def forget(peer) = @parked.delete(peer)

      # Counts in a copy: a status may be asked in another thread.
      def parked(sink) = @parked.values.count { |sinks| sinks.include?(sink) }

      # Resumes connections after the key :room.
      def release
        @emitted = false
        free = @parked.select { |_, sinks| sinks.all?(&:room?) }.keys
        free.each { |peer| forget(peer) }
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

      private

      # Called in the committer's tasks after a write.
      def written
        return if @emitted || @parked.empty?

        @emitted = true
        @loop.emit(:room)
      end

      def wait(peer, sinks)
        return if sinks.empty? || sinks.all?(&:room?)

        @parked[peer] = sinks
        peer.pause
      end
    end
  end
end
