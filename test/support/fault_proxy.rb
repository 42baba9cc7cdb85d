# frozen_string_literal: true

# A proxy between two transports of a test, in the test's own thread: it passes bytes on in pieces
# of a given size, and after so many bytes of one direction something goes wrong. A test calls
# `turn` between the steps of both sides, so each run has one order.
require "socket"

module GyreTest
  # Two pairs of sockets and what happens between them.
  class FaultProxy
    # fin: that direction ends; close: both do, in order; reset: both do, by RST; stall: nothing
    # comes any more in that direction.
    FAULTS = %i[fin close reset stall].freeze

    # One direction.
    class Direction
      attr_reader :from, :to, :moved

      def initialize(from, to, piece, limit)
        @from = from
        @to = to
        @piece = piece
        @limit = limit
        @moved = 0
        @ended = false
      end

      # Returns whether nothing passes any more.
      def ended? = @ended

      # Returns whether the limit is reached now; whether something moved.
      def move
        return false if @ended
        return cut if @moved == @limit

        bytes = @from.read_nonblock([@piece, (@limit || Float::INFINITY) - @moved].min, exception: false)
        return false if bytes == :wait_readable
        return pass_end unless bytes

        @moved += bytes.bytesize # first, for a proxy in a thread: what has come is counted
        @to.write(bytes)
        true
      rescue Errno::EPIPE, Errno::ECONNRESET, IOError
        pass_end # a side is gone already
      end

      def pass_end
        @ended = true
        @to.shutdown(:WR) unless @to.closed?
        true
      rescue Errno::ENOTCONN, Errno::EPIPE
        true
      end

      private

      def cut
        @ended = true
        :cut
      end
    end

    attr_reader :sockets
    attr_reader :directions

    def initialize(pairs, piece: 65_536, cut: nil, after: nil, fault: nil)
      (client, client_far), (server, server_far) = pairs
      @sockets = [client, server]
      @far = [client_far, server_far]
      @fault = fault
      limits = [0, 1].map { |index| after if index == cut }
      @directions = [Direction.new(client_far, server_far, piece, limits[0]), Direction.new(server_far, client_far, piece, limits[1])]
    end

    # Returns whether something moved or went wrong.
    def turn
      @directions.map do |direction|
        result = direction.move
        result == :cut ? fail_direction(direction) : result
      end.any?
    end

    def moved = @directions.sum(&:moved)

    def close
      @far.each(&:close)
    end

    private

    def fail_direction(direction)
      case @fault
      when :fin then direction.pass_end
      when :close then @far.each(&:close)
      when :reset
        @far.each { |socket| socket.setsockopt(Socket::Option.linger(true, 0)) }
        @far.each(&:close)
      end
      true
    end
  end
end
