# frozen_string_literal: true

# Serves all connections in one fiber: runs a keyed Gyre::Loop for acceptors and connections, keeps
# the clock, and applies backpressure. Made by Gyre::Log::Server, run by Gyre::Log::Lifecycle.
# Writes no file.
#
# While memory is full, a connection with messages is paused when its socket is ready. While an
# output's queue is full, only connections with messages for this output are paused (flow.rb).
# Clients may still connect, authenticate, follow the log and request the status.

require "gyre/log/server/connection"
require "gyre/log/server/flow"
require "gyre/log/server/handshake"
require "gyre/log/wire/records"
require "gyre/loop"

module Gyre
  module Log
    class Hub
      # Seconds between two writes to followers.
      TAIL_S = 0.05
      # Maximum seconds of reading when the server stops, and maximum reads of each socket.
      DRAIN_S = 1.0
      DRAIN_READS = 8 * 1_048_576 / Connection::READ_BYTES

      attr_reader :server, :loop, :flow, :complaints, :handshake
      attr_reader :buffer # lent to each read; the reader copies what it keeps
      attr_reader :now_s # monotonic; as old as the last tick or accept
      attr_reader :connections
      attr_reader :cut # messages beyond message_bytes_limit

      def initialize(server, key)
        @server = server
        @handshake = Handshake.new(key)
        @loop = Gyre::Loop.new
        @buffer = String.new(capacity: Connection::READ_BYTES)
        @connections, @tails = {}.compare_by_identity, {}.compare_by_identity
        @senders = {}.compare_by_identity
        @resting = []
        @cut = 0
        @flow = Flow.new(@loop, server)
        @complaints = Complaints.new(limits.complaints_limit, room: @flow.method(:room?)) { |severity, message| log(severity, message) }
        update_clock
        @rates = Rates.new(@now_s, 0)
      end

      def run
        @loop.watch_timer(:tick, tick_s, tick_s)
        begin
          @loop.each { |key| dispatch(key) }
        rescue IOError => error # another task closed the socket, and its watch is over
          report(error.message)
          retry
        end
      end

      def ingest = @server.ingest

      def limits = @server.limits

      def time_ns = Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond)

      def update_clock = @now_s = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      def log(severity, message) = ingest.log("gyre", severity, message, time_ns)

      def report(message) = @server.report(message)

      # Reports a fault of the server's code. The full description may load files, which needs
      # descriptors; if this fails, reports only the message.
      def report_fault(error, about = "")
        report("#{about}#{error.full_message(highlight: false)}")
      rescue StandardError, ScriptError
        report("#{about}#{error.message} (#{error.class})")
      end

      # Reports and counts a peer's messages beyond the limit, which were cut.
      def overlong(peer, count)
        return if count.zero?

        @cut += count
        complaints.add(peer, "#{Units.count(count, "message was", "messages were")} cut at #{limits.message_bytes_limit} bytes (message_bytes_limit)")
      end

      def full? = @connections.size >= limits.connections_limit

      def admit(connection)
        @connections[connection] = true
        connection.start
      end

      def closed(connection)
        @connections.delete(connection)
        @flow.forget(connection)
        @loop.unwatch(:tails) if @tails.delete(connection) && @tails.empty?
      end

      def decoder(kind, session, framing, origin)
        limit = kind == :analogger ? Wire::FRAME_BYTES_LIMIT : limits.message_bytes_limit
        limit = [limit, Records::BYTES_LIMIT].max if kind == :records # a refused record would come again and again
        ingest.decoder(kind, session: session, limit: limit, framing: framing, **origin.to_h)
      end

      # Returns a Follower; nil if too many connections follow the log.
      def tail(connection, service)
        return if @tails.size >= limits.tailers_limit

        @loop.watch_timer(:tails, TAIL_S, TAIL_S) if @tails.empty?
        @tails[connection] = true
        Follower.new(ingest, service, limits.tail_bytes_limit)
      end

      def rates = @rates.to_h

      # Reads the sockets within limits, because clients may keep sending. Yields if memory is full,
      # and stops if the block returns false.
      def drain_sockets
        over_s = update_clock + DRAIN_S
        waiting = @connections.keys
        DRAIN_READS.times do
          break if waiting.empty? || update_clock > over_s

          waiting.select! do |connection|
            return if @flow.crowded? && !yield

            connection.drain
          end
        end
      end

      def send_soon(connection)
        @loop.emit(:send) if @senders.empty?
        @senders[connection] = true
      end

      def resume_later(seconds, acceptor) = @resting.push([@now_s + seconds, acceptor])

      # Calls {Connection#send_due} of connections that called {#send_soon}.
      def send_due
        senders, @senders = @senders, {}.compare_by_identity
        senders.each_key(&:send_due)
      end

      private

      # Handles a key of the loop. Reports an error as the server's fault, and continues.
      def dispatch(key)
        case key
        when Connection, Acceptor then key.ready
        when :tick then tick
        when :send then send_due
        when :tails then @tails.each_key(&:send_due)
        when :full then @flow.check(@connections.keys)
        when :room then @flow.release
        end
        @flow.yield_to_outputs
      rescue StandardError => error
        report_fault(error)
      end

      def tick
        update_clock
        @complaints.tick(@now_s)
        @rates.sample(@now_s, ingest.messages)
        @flow.tick(@now_s)
        @connections.keys.each(&:tick) unless @flow.held?
        due, @resting = @resting.partition { |at, _| at <= @now_s }
        Flow.resume(due.map(&:last))
      end

      # Seconds between ticks, at most a quarter of the shortest time limit.
      def tick_s
        times = [limits.authentication_timeout_s, limits.idle_timeout_s, limits.linger_timeout_s].compact
        [1.0, *times.map { |seconds| seconds / 4.0 }].min
      end
    end

    # Computes messages per second for `gyre log status`. Takes a sample of a counter each second.
    class Rates
      SPANS_S = [1, 10, 60].freeze

      def initialize(now_s, count)
        @samples = [[now_s, count]]
      end

      def sample(now_s, count)
        return if now_s - @samples.last.first < 0.95

        @samples.push([now_s, count])
        @samples.shift if @samples.size > SPANS_S.last + 1
      end

      def to_h = SPANS_S.to_h { |span| [span, rate(span)] }

      private

      def rate(span)
        now, count = @samples.last
        before, former = @samples[-(span + 1)] || @samples.first
        now > before ? ((count - former) / (now - before)).round(1) : 0.0
      end
    end

    # Limits the reports per second about clients' faults, so that a faulty client does not fill the
    # disk. Reports how many were omitted. Connections call {#add}, the hub's clock calls {#tick}.
    class Complaints
      # `limit` is in lines per second. Writes nothing while `room` returns false. Yields "warn" or
      # "error", and the line.
      def initialize(limit, room: -> { true }, &write)
        @limit = limit
        @room = room
        @write = write
        @reported = @left_out = 0
        @second = nil
      end

      def add(peer, message, severity = "warn")
        if @reported < @limit && @room.call
          @reported += 1
          @write.call(severity, "#{peer}: #{message}")
        else
          @left_out += 1
        end
      end

      def tick(now_s)
        return if @second && now_s - @second < 1

        @second = now_s
        @reported = 0
        return unless @left_out.positive? && @room.call

        @write.call("warn", "#{Units.count(@left_out, "more complaint about clients was", "more complaints about clients were")} left out")
        @left_out = 0
      end
    end

    # Collects lines for a connection that follows the log. Lines wait in a bounded sink. If the
    # reader is too slow, further lines are dropped, and the stream reports their number.
    class Follower
      attr_reader :messages
      attr_accessor :session # a Feed has one

      # An empty `service` means all services.
      def initialize(ingest, service, limit)
        @ingest = ingest
        @sink = ingest.sink(format: :text, limit: limit)
        ingest.tap(@sink, service.empty? ? nil : service)
        @reported = @messages = 0
      end

      def receive(_bytes, _time_ns); end

      def finish(_time_ns)
        @ingest.untap(@sink)
        @sink.take
        nil
      end

      def due
        dropped = @sink.dropped - @reported
        @reported += dropped
        @messages += @sink.lines
        lines, = @sink.take
        return lines if dropped.zero?

        "#{lines}#{Units.count(dropped, "line was", "lines were")} dropped here: this reader is too slow\n".b
      end

      def done? = true

      def incomplete = 0

      def newly_overlong = 0
    end
  end
end
