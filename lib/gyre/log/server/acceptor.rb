# frozen_string_literal: true

# Accepts connections of a Gyre::Log::Inlet's listening socket and admits them to the hub.

require "gyre/log/server/connection"
require "gyre/log/wire/origin"
require "gyre/net/listener"

module Gyre
  module Log
    class Acceptor
      ACCEPTS = 64

      attr_reader :listener
      attr_reader :input

      def initialize(hub, listener, input)
        @hub, @listener, @input = hub, listener, input
        @open = false
      end

      # Stops accepting until {#resume}.
      def pause
        @open = false
        @hub.loop.unwatch(self)
      end

      def resume
        return if @open || @listener.closed?

        @hub.loop.watch_io(self, @listener.socket)
        @open = true
      rescue SystemCallError, NoMemoryError => error
        pause_after(error)
      end

      def ready
        return unless @open
        return @hub.flow.park(tap { pause }) if @hub.flow.held?

        @hub.update_clock
        ACCEPTS.times do
          accepted = @listener.accept or break
          admit(*accepted) unless accepted == :gone
        end
      rescue SystemCallError => error
        pause_after(error)
      end

      private

      def pause_after(error)
        pause
        @hub.complaints.add(@listener, "no connection can be accepted: #{error.message}", "error")
        @hub.resume_later(Listener::PAUSE_S, self)
      end

      def admit(socket, address)
        peer, origin = peer(socket, address)
        transport = @input.transport(socket)
        return reject(transport, peer) if @hub.full?

        if address.ip?
          socket.setsockopt(:TCP, :NODELAY, true)
          socket.setsockopt(:SOCKET, :KEEPALIVE, true)
        end
        @hub.admit(Connection.new(@hub, transport, peer, @input, origin))
      rescue SystemCallError # the process has ended
        socket.close
      end

      def reject(transport, peer)
        @hub.complaints.add(peer, "too many connections (#{@hub.limits.connections_limit})")
        return if transport.tls? || @input.kind == :syslog

        transport.queue("error: too many connections\n")
        transport.flush_available
      ensure
        transport.abandon
      end

      def peer(socket, address)
        return [address.inspect_sockaddr, Origin.seen(address)] if address.ip?

        pid, uid, = socket.getsockopt(:SOCKET, :PEERCRED).unpack("i3")
        ["#{@listener} (process #{pid}, user #{uid})", Origin.seen(address, (pid if pid.positive?))] # 0: outside of this namespace
      rescue SystemCallError, SocketError
        [@listener.to_s, Origin.seen(address)] # a system without peer credentials
      end
    end

    # Receives datagrams of a Gyre::Log::Inlet's socket on the hub's loop.
    class DatagramReceiver < Acceptor
      # Maximum reads in a turn. Packets that are buffered after these reads are taken in addition.
      READS = 250
      # Bytes of the kernel's buffer, up to net.core.rmem_max. Datagrams have no backpressure.
      WAITING_BYTES = 4 * 1_048_576

      def initialize(*)
        super
        @socket = Datagram.new(@listener.socket, @listener, nil, Datagram::BYTES_LIMIT)
        @listener.socket.setsockopt(:SOCKET, :RCVBUF, WAITING_BYTES)
      end

      def ready
        return unless @open
        return @hub.flow.park(tap { pause }) if @hub.flow.paused?

        # A full output drops its messages, because a pause would also hold up other outputs.
        @hub.flow.received(nil, take)
      end

      private

      # Returns the number of received bytes.
      def take
        taken = reads = 0
        while reads < READS || @socket.pending?
          packet = @socket.receive(timeout: 0) or break
          reads += 1
          taken += packet.bytes.bytesize
          deliver(packet.bytes)
        end
        taken
      rescue SystemCallError => error # such as an unreachable address of an earlier send
        @hub.complaints.add(@listener, error.message)
        taken
      end

      # Reports and skips an unreadable datagram.
      def deliver(bytes)
        @hub.ingest.datagram(@input.kind, bytes, @hub.time_ns)
      rescue *Connection::FAULTS => error
        @hub.report_fault(error, "#{@listener}: ")
      end
    end
  end
end
