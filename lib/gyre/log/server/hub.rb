# frozen_string_literal: true

# The one fiber that reads and responds: a keyed Gyre::Loop whose keys are acceptors and
# connections, the table of connections, the clock, and the backpressure. Gyre::Log::Server makes it
# and drives it. It writes no file and waits for nothing but the loop.
#
# Under backpressure, a connection that brings messages is parked as soon as its socket is ready;
# with an output's queue full (queues.rb), one that brings messages for that output. Clients may
# still connect, authenticate, follow the log and ask for the status.

require "gyre/log/server/backpressure"
require "gyre/log/server/complaints"
require "gyre/log/server/connection"
require "gyre/log/server/handshake"
require "gyre/log/server/queues"
require "gyre/log/server/rates"
require "gyre/log/wire/records"
require "gyre/log/server/tail"
require "gyre/loop"

module Gyre
  module Log
    # What connections share.
    class Hub
      # How often followers get their lines.
      TAIL_S = 0.05
      # For how long, and how often each, connections are read at the end.
      DRAIN_S = 1.0
      DRAIN_READS = 8 * 1_048_576 / Connection::READ_BYTES
      # Bytes read before the outputs get a turn: a batch of that size stays in the processor's
      # caches.
      BATCH_BYTES = 1_048_576

      attr_reader :server, :loop, :limits, :ingest, :sessions, :complaints, :handshake, :backpressure, :queues
      # @return [String] lent to each read; what is kept of it has to be copied
      attr_reader :buffer
      # @return [Float] of a monotonic clock; as old as the last tick or accept
      attr_reader :now_s
      # @return [Hash{Connection => true}] all open connections
      attr_reader :connections

      # @param server [Server]
      # @param key [String, nil]
      def initialize(server, key)
        @server = server
        @ingest, @committer, @sessions, @limits = server.ingest, server.committer, server.sessions, server.limits
        @handshake = Handshake.new(key, limit: @limits.frame_bytes_limit)
        @loop = Gyre::Loop.new
        @buffer = String.new(capacity: Connection::READ_BYTES)
        @connections, @tails = {}.compare_by_identity, {}.compare_by_identity
        @senders, @resting = [], []
        @read_bytes = 0
        @queues = Queues.new(@loop, server)
        @backpressure = Backpressure.new(@loop, @limits.memory_bytes_limit, -> { @committer.stuck_bytes }) { bytes }
        room = -> { bytes < @limits.memory_bytes_limit * 2 }
        @complaints = Complaints.new(@limits.complaints_limit, room: room) { |severity, message| log(severity, message) }
        update_clock
        @rates = Rates.new(@now_s, 0)
      end

      # Serves until {#stop}.
      #
      # @yieldparam event [Object] one that is not the hub's own
      def run(&block)
        @loop.watch_timer(:tick, tick_s, tick_s)
        begin
          @loop.each { |key| dispatch(key, block) }
        rescue IOError => error # a socket was closed elsewhere; its watch is over
          report(error.message)
          retry
        end
      end

      def stop = @loop.stop

      # --- for connections and acceptors ---

      # @return [Integer] nanoseconds since 1970
      def time_ns = Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond)

      # @return [Float]
      def update_clock
        @now_s = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end

      # A line of the server's own.
      def log(severity, message) = @ingest.log("gyre", severity, message, time_ns)

      # A fault of the server itself.
      def report(message) = @server.report(message)

      # A fault of the server's own code. To describe it in full Ruby may load files, and that fails
      # without descriptors.
      #
      # @param about [String]
      def report_fault(error, about = "")
        report("#{about}#{error.full_message(highlight: false)}")
      rescue StandardError, ScriptError
        report("#{about}#{error.message} (#{error.class})")
      end

      # @return [Boolean] whether there are as many connections as may be
      def full? = @connections.size >= @limits.connections_limit

      # @param connection [Connection]
      # @param left [Hash, nil] see {Connection#start}
      def admit(connection, left = nil)
        @connections[connection] = true
        connection.start(left)
      end

      # @param connection [Connection]
      def closed(connection)
        @connections.delete(connection)
        @backpressure.forget(connection)
        @queues.forget(connection)
        return unless @tails.delete(connection)

        @loop.unwatch(:tails) if @tails.empty?
      end

      # @return [Ingest::Decoder, JSONDecoder]
      def decoder(kind, session, framing, origin)
        limit = kind == :analogger ? @limits.frame_bytes_limit : @limits.message_bytes_limit
        limit = [limit, Records::BYTES_LIMIT].max if kind == :records # clients count on it: a refused record would be sent for ever
        @ingest.decoder(kind, session: session&.intake, limit: limit, framing: framing, **origin.to_h)
      end

      # @return [Boolean]
      def room_for_tail? = @tails.size < @limits.tailers_limit

      # @return [Tail]
      def tail(connection, service)
        @loop.watch_timer(:tails, TAIL_S, TAIL_S) if @tails.empty?
        @tails[connection] = true
        Tail.new(@ingest, service, @limits.tail_bytes_limit)
      end

      # @return [Integer] of messages in memory
      def bytes = @ingest.bytesize + @committer.bytes

      # @return [Hash{Integer => Float}] messages a second over the last so many seconds
      def rates = @rates.to_h

      # Messages have come.
      #
      # @param session [Session, nil] of an acknowledged client
      # @param peer [Connection, nil] can be paused
      def received(session, bytes = 0, peer = nil)
        session ? @committer.commit_soon(session) : @fresh = true
        @read_bytes += bytes
        crowded = @ingest.crowded?
        @queues.park(peer) if crowded && peer
        @committer.commit_now if @backpressure.check || crowded
      end

      # @return [Boolean] whether no connection may bring messages
      def paused? = @backpressure.on?

      # @return [Boolean] whether nothing at all may be read or accepted
      def held? = @backpressure.held?

      # Reads what is in the sockets already: no more than their buffers hold, however fast clients
      # send on.
      #
      # @yield when too much is in memory: it has to be written first
      # @yieldreturn [Boolean] false when that cannot be: then nothing more is read
      def drain_sockets
        over_s = update_clock + DRAIN_S
        waiting = @connections.keys
        DRAIN_READS.times do
          break if waiting.empty? || update_clock > over_s

          waiting.select! do |connection|
            return if @backpressure.crowded? && !yield

            connection.drain
          end
        end
      end

      # Has its {Connection#send_due} called in the hub's own fiber.
      #
      # @param connection [Connection]
      def send_soon(connection)
        @loop.emit(:send) if @senders.empty?
        @senders.push(connection)
      end

      # Resumes it at the first tick after that time.
      #
      # @param seconds [Float]
      # @param acceptor [#resume]
      def resume_later(seconds, acceptor) = @resting.push([@now_s + seconds, acceptor])

      # Lets all connections send that have something to send.
      def send_due
        senders, @senders = @senders, []
        senders.each(&:send_due)
      end

      private

      # What fails here is a fault of the server; it goes on all the same.
      def dispatch(key, block)
        case key
        when Connection, Acceptor then key.ready
        when :tick then tick
        when :send then send_due
        when :tails then @tails.each_key(&:send_due)
        when :backpressure then @backpressure.release || evict_incomplete
        when :room then @queues.release
        else block.call(key)
        end
        yield_to_outputs if @read_bytes > BATCH_BYTES
      rescue StandardError => error
        report_fault(error)
      end

      # What stays incomplete is never written: too much of that would never end the backpressure.
      # The largest are closed.
      def evict_incomplete
        excess = @ingest.incomplete - (@limits.memory_bytes_limit / 2)
        return unless excess.positive?

        @connections.keys.sort_by { |connection| -connection.incomplete }.each do |connection|
          break unless excess.positive?

          excess -= connection.incomplete
          connection.drop_incomplete
        end
      end

      # What acknowledged clients sent waits for its commit all the same.
      def yield_to_outputs
        @committer.commit_now if @fresh
        @fresh = nil
        @read_bytes = 0
        sleep 0
      end

      def tick
        update_clock
        @complaints.tick(@now_s)
        @rates.sample(@now_s, @ingest.messages)
        @queues.tick(@now_s)
        @connections.keys.each(&:tick) unless held?
        due, @resting = @resting.partition { |at, _| at <= @now_s }
        Backpressure.resume(due.map(&:last))
      end

      # Fine enough for the shortest time that is watched.
      def tick_s
        times = [@limits.authentication_timeout_s, @limits.idle_timeout_s, @limits.linger_timeout_s].compact
        [1.0, *times.map { |seconds| seconds / 4.0 }].min
      end
    end
  end
end
