# frozen_string_literal: true

# A server's open-ended responses: event streams, upgraded connections, hijacked sockets, idle
# streaming bodies. Response and the acceptor add them; Server ends them. Closes no socket.

require "gyre/errors"
require "gyre/weak_set"

module Gyre
  module HTTP
    # Used in the thread of the server's loop, except {#hijacked}.
    class OpenResponses
      # A response, and the number of its bytes that had been sent at the last check.
      Entry = Struct.new(:response, :bytes)

      def initialize
        @endless = {}.compare_by_identity # Fiber => true
        @streaming = {}.compare_by_identity # Fiber => Entry
        @sockets = WeakSet.new
        @away = WeakSet.new # clients' own sockets
        @ending = false
      end

      # Runs the block of an endless response. Raises Gyre::Stop in the block when the server stops.
      def endless(&block) = enter(@endless, true, &block)

      # Runs the block of a streaming body. Raises Gyre::Stop in the block when the server stops and
      # the body is idle.
      def streaming(response, &block) = enter(@streaming, Entry.new(response, nil), &block)

      # `away`: the connection has left the server.
      def hijacked(socket, away)
        @sockets.add(socket)
        @away.add(socket) if away
        @ending ? end_input(socket) : nil
      end

      # Number of endless responses, which {#finish} ends.
      def count = @endless.size

      # Number of connections that have left the server and are open.
      def away = @away.count { |socket| !socket.closed? }

      # Raises Gyre::Stop in endless responses, and shuts down the input of hijacked sockets.
      def finish
        @ending = true
        interrupt(@endless.keys)
        @sockets.each { |socket| end_input(socket) }
      end

      # Ends streaming bodies that sent nothing since the last call and do not wait for a client.
      def finish_quiet
        quiet = @streaming.select do |_fiber, entry|
          before = entry.bytes
          entry.bytes = entry.response.progress
          before && before == entry.bytes
        end
        interrupt(quiet.keys)
      end

      # Shuts down both directions of hijacked sockets. Called last.
      def close = @sockets.each { |socket| shut(socket, :RDWR) }

      private

      def enter(table, value)
        raise stop if @ending && table.equal?(@endless)

        fiber = Fiber.current
        table[fiber] = value
        begin
          yield
        ensure
          table.delete(fiber)
        end
      end

      def interrupt(fibers)
        scheduler = Fiber.scheduler
        fibers.each { |fiber| scheduler.fiber_interrupt(fiber, stop) }
      end

      def stop = Gyre::Stop.new("the server stops")

      def end_input(socket) = shut(socket, :RD)

      def shut(socket, direction)
        socket.shutdown(direction) unless socket.closed?
      rescue SystemCallError, IOError
        nil # the client or the app has already closed the socket
      end
    end
  end
end
