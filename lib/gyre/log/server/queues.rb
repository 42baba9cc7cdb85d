# frozen_string_literal: true

# Back-pressure of one output: a connection that brings messages for one whose queue is full waits until half of it is free; all others go on. The hub
# asks it after each read. A connection is known by what it brought last, and waits as a whole: what comes behind such a message, perhaps
# for other outputs, waits in its socket, so that a connection's messages keep their order. It knows no sockets.

require "gyre/log/server/brake"

module Gyre
  module Log
    # Which connections wait for which sinks.
    class Queues
      # Between two messages about what was dropped.
      TELL_S = 10

      # @param loop [Gyre::Loop] gets the key :room when it is to look
      # @param server [Server] answers routing, committer, report
      def initialize(loop, server)
        @loop, @server, @routing = loop, server, server.routing
        @parked = {}.compare_by_identity
        @told = false
        @dropped = Hash.new(0).compare_by_identity # as told
        @tell_at_s = 0
        server.committer.on_written { written }
      end

      # What it brought just now was for sinks that are full.
      #
      # @param peer [Connection]
      # @return [void]
      def park(peer)
        wait(peer, @routing.sinks.select(&:hit?))
      end

      # It is about to bring messages of this service.
      #
      # @param peer [Connection]
      # @param service [String]
      # @return [void]
      def greet(peer, service)
        wait(peer, @routing.sinks_of(service).select(&:blocked?))
      end

      # @param peer [Connection]
      # @return [void]
      def forget(peer)
        @parked.delete(peer)
      end

      # @param sink [Ingest::Sink]
      # @return [Integer] how many wait for it
      def parked(sink)
        @parked.count { |_, sinks| sinks.include?(sink) }
      end

      # The key :room has come.
      #
      # @return [void]
      def look
        @told = false
        free = @parked.select { |_, sinks| sinks.all?(&:room?) }.keys
        free.each { |peer| forget(peer) }
        Brake.resume(free)
      end

      # Tells what was dropped since it was told last.
      #
      # @param now_s [Float]
      # @return [void]
      def tick(now_s)
        return if now_s < @tell_at_s

        @routing.pairs.each do |sink, output|
          count = sink.dropped - @dropped[sink]
          next unless count.positive?

          @server.report("#{output}: #{count} messages were dropped, for its queue is full")
          @dropped[sink] += count
          @tell_at_s = now_s + TELL_S
        end
      end

      private

      # An output has written. Called in the committer's tasks, so it only leaves word.
      def written
        return if @told || @parked.empty?

        @told = true
        @loop.emit(:room)
      end

      def wait(peer, sinks)
        return if sinks.empty? || sinks.all?(&:room?)

        @parked[peer] = sinks
        peer.hold
      end
    end
  end
end
