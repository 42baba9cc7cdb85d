# frozen_string_literal: true

# The responses of one server that have no end of their own: event streams, upgraded connections,
# hijacked sockets, and streaming bodies that wait for something to send. Response and the acceptor
# enter them here, Server ends them when it stops, so that a stop does not have to wait for them. It
# closes no socket and writes nothing.

require "gyre/errors"

module Gyre
  module HTTP
    # All methods are for the thread of the server's loop, except {#hijacked}.
    class OpenResponses
      # One response under way: its Response, and how many bytes it had sent when it was looked at
      # last.
      Entry = Struct.new(:response, :bytes)
      private_constant :Entry

      def initialize
        @endless = {}.compare_by_identity # Fiber => true
        @streaming = {}.compare_by_identity # Fiber => Entry
        @sockets = ObjectSpace::WeakMap.new # BasicSocket => true
        @ending = false
      end

      # Around a response that goes on until either side ends it.
      #
      # @return [Object] the block's value
      # @raise [Gyre::Stop] the server stops, before or meanwhile
      def endless(&block)
        enter(@endless, true, &block)
      end

      # Around a streaming body: it may end by itself or not.
      #
      # @param response [#progress]
      # @return [Object] the block's value
      # @raise [Gyre::Stop] the server stops, and nothing has been sent for a while
      def streaming(response, &block)
        enter(@streaming, Entry.new(response, nil), &block)
      end

      # A socket that left the server. It is kept track of as long as the app has it.
      #
      # @param socket [BasicSocket]
      # @return [void]
      def hijacked(socket)
        @sockets[socket] = true
        @ending ? end_input(socket) : nil
      end

      # @return [Integer] responses that {#finish} would end
      def count
        @endless.size
      end

      # The server stops: endless responses end with Gyre::Stop at their present wait, hijacked
      # sockets read their end of file.
      #
      # @return [void]
      def finish
        @ending = true
        interrupt(@endless.keys)
        @sockets.each_key { |socket| end_input(socket) }
      end

      # To be called now and then while the server stops: ends streaming bodies that have sent
      # nothing since the last call, unless it is the client that takes nothing.
      #
      # @return [void]
      def finish_quiet
        quiet = @streaming.select do |_fiber, entry|
          before = entry.bytes
          entry.bytes = entry.response.progress
          before && before == entry.bytes
        end
        interrupt(quiet.keys)
      end

      # The last call: nothing can be sent on hijacked sockets any more either.
      #
      # @return [void]
      def close
        @sockets.each_key { |socket| shut(socket, :RDWR) }
      end

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

      def stop
        Gyre::Stop.new("the server stops")
      end

      def end_input(socket)
        shut(socket, :RD)
      end

      def shut(socket, direction)
        socket.shutdown(direction) unless socket.closed?
      rescue SystemCallError, IOError
        nil # the client, or the app, was faster
      end
    end
  end
end
