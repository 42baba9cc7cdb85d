# frozen_string_literal: true

# Backpressure of one output: a connection that brings messages for one whose queue is full waits
# until half of it is free; all others go on. The hub calls it after each read. What a connection
# brought last decides, and it waits as a whole: what comes behind such a message, perhaps for other
# outputs, waits in its socket, so that a connection's messages keep their order. Without sockets.

require "gyre/log/server/backpressure"
require "gyre/net/units"

module Gyre
  module Log
    # Which connections wait for which sinks.
    class Queues
      # Between two reports of dropped messages.
      REPORT_S = 10

      # @param loop [Gyre::Loop] gets the key :room when {#release} is to be called
      # @param server [Server] answers routing, committer, report
      def initialize(loop, server)
        @loop, @server, @routing = loop, server, server.routing
        @parked = {}.compare_by_identity
        @emitted = false
        @dropped = Hash.new(0).compare_by_identity # as reported
        @report_at_s = 0
        server.committer.on_written { written }
      end

      # What it brought just now was for sinks that are full.
      #
      # @param peer [Connection]
      def park(peer) = wait(peer, @routing.sinks.select(&:hit?))

      # It is about to be read. Of connections that are ready at once each would bring a whole read
      # for a queue that the first of them has filled.
      #
      # @param peer [Connection]
      # @param service [String, nil] nil: not known before its messages are read
      def about_to_read(peer, service)
        wait(peer, @routing.sinks_of(service).select(&:blocked?)) if service && !@parked.empty?
      end

      # @param peer [Connection]
      def forget(peer) = @parked.delete(peer)

      # @param sink [Ingest::Sink]
      # @return [Integer] how many wait for it
      def parked(sink) = @parked.count { |_, sinks| sinks.include?(sink) }

      # The key :room has come.
      def release
        @emitted = false
        free = @parked.select { |_, sinks| sinks.all?(&:room?) }.keys
        free.each { |peer| forget(peer) }
        Backpressure.resume(free)
      end

      # Reports what was dropped since the last report.
      #
      # @param now_s [Float]
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

      # An output has written. Called in the committer's tasks.
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
