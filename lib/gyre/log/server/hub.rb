# frozen_string_literal: true

# Reads and responds in one fiber: runs a keyed Gyre::Loop of acceptors and connections, the clock
# and the backpressure. Made and driven by Gyre::Log::Server. Writes no file.
#
# Under backpressure, a connection with messages is paused once its socket is ready; while an
# output's queue is full (queues.rb), only connections with messages for it. Clients may still
# connect, authenticate, follow the log and request the status.

require "gyre/log/server/complaints"
require "gyre/log/server/connection"
require "gyre/log/server/flow"
require "gyre/log/server/handshake"
require "gyre/log/server/rates"
require "gyre/log/wire/records"
require "gyre/log/server/follower"
require "gyre/loop"

module Gyre
  module Log
    class Hub
      # Seconds between two writes to followers.
      TAIL_S = 0.05
      # Limits of reading each connection at the end: seconds, reads.
      DRAIN_S = 1.0
      DRAIN_READS = 8 * 1_048_576 / Connection::READ_BYTES

      attr_reader :server, :loop, :flow, :complaints, :handshake
      attr_reader :buffer # lent to each read; the reader copies what it keeps
      attr_reader :now_s # monotonic; as old as the last tick or accept
      attr_reader :connections

      def initialize(server, key)
        @server = server
        @handshake = Handshake.new(key)
        @loop = Gyre::Loop.new
        @buffer = String.new(capacity: Connection::READ_BYTES)
        @connections, @tails = {}.compare_by_identity, {}.compare_by_identity
        @senders, @resting = [], []
        @flow = Flow.new(@loop, server)
        @complaints = Complaints.new(limits.complaints_limit, room: @flow.method(:room?)) { |severity, message| log(severity, message) }
        update_clock
        @rates = Rates.new(@now_s, 0)
      end

      def run(&block)
        @loop.watch_timer(:tick, tick_s, tick_s)
        begin
          @loop.each { |key| dispatch(key, block) }
        rescue IOError => error # another task closed the socket, and its watch is over
          report(error.message)
          retry
        end
      end

      def stop = @loop.stop

      def ingest = @server.ingest

      def limits = @server.limits

      def time_ns = Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond)

      def update_clock
        @now_s = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end

      def log(severity, message) = ingest.log("gyre", severity, message, time_ns)

      def report(message) = @server.report(message)

      # Reports a fault of the server's code. A full description may load files, which needs
      # descriptors.
      def report_fault(error, about = "")
        report("#{about}#{error.full_message(highlight: false)}")
      rescue StandardError, ScriptError
        report("#{about}#{error.message} (#{error.class})")
      end

      def full? = @connections.size >= limits.connections_limit

      def admit(connection, left = nil)
        @connections[connection] = true
        connection.start(left)
      end

      def closed(connection)
        @connections.delete(connection)
        @flow.forget(connection)
        return unless @tails.delete(connection)

        @loop.unwatch(:tails) if @tails.empty?
      end

      def decoder(kind, session, framing, origin)
        limit = kind == :analogger ? Wire::FRAME_BYTES_LIMIT : limits.message_bytes_limit
        limit = [limit, Records::BYTES_LIMIT].max if kind == :records # a refused record would come again and again
        ingest.decoder(kind, session: session&.intake, limit: limit, framing: framing, **origin.to_h)
      end

      def room_for_tail? = @tails.size < limits.tailers_limit

      def tail(connection, service)
        @loop.watch_timer(:tails, TAIL_S, TAIL_S) if @tails.empty?
        @tails[connection] = true
        Follower.new(ingest, service, limits.tail_bytes_limit)
      end

      def rates = @rates.to_h

      # Reads the sockets once, even if clients keep sending. Yields if memory is full; false stops.
      def drain_sockets
        over_s = update_clock + DRAIN_S
        waiting = @connections.keys
        DRAIN_READS.times do
          break if waiting.empty? || update_clock > over_s

          waiting.select! do |connection|
            return if @flow.backpressure.crowded? && !yield

            connection.drain
          end
        end
      end

      def send_soon(connection)
        @loop.emit(:send) if @senders.empty?
        @senders.push(connection)
      end

      def resume_later(seconds, acceptor) = @resting.push([@now_s + seconds, acceptor])

      # Calls {Connection#send_due} where something is due.
      def send_due
        senders, @senders = @senders, []
        senders.each(&:send_due)
      end

      private

      # A failure here is the server's fault; it continues.
      def dispatch(key, block)
        case key
        when Connection, Acceptor then key.ready
        when :tick then tick
        when :send then send_due
        when :tails then @tails.each_key(&:send_due)
        when :backpressure then @flow.backpressure.release || @flow.evict_incomplete(@connections.keys)
        when :room then @flow.queues.release
        else block.call(key)
        end
        @flow.yield_to_outputs
      rescue StandardError => error
        report_fault(error)
      end

      def tick
        update_clock
        @complaints.tick(@now_s)
        @rates.sample(@now_s, ingest.messages)
        @flow.queues.tick(@now_s)
        @connections.keys.each(&:tick) unless @flow.held?
        due, @resting = @resting.partition { |at, _| at <= @now_s }
        Backpressure.resume(due.map(&:last))
      end

      # Short enough for the shortest time limit.
      def tick_s
        times = [limits.authentication_timeout_s, limits.idle_timeout_s, limits.linger_timeout_s].compact
        [1.0, *times.map { |seconds| seconds / 4.0 }].min
      end
    end
  end
end
