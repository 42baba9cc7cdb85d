# frozen_string_literal: true

# Accepts connections of a Gyre::Log::Inlet's listening socket and admits them to the hub.

require "gyre/log/server/connection"
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

      # Describes the socket for a new program.
      def to_h = { input: @input.to_s, host: @listener.endpoint.host, descriptor: @listener.fileno }

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
      # Senders whose address is kept as text.
      HOSTS_LIMIT = 1_000

      def initialize(*)
        super
        @limit = @hub.limits.message_bytes_limit
        @hosts = {}
        socket = @listener.socket
        @socket = @listener.endpoint.path ? Local.new(socket, @limit) : Datagram.new(socket, @listener, nil, Datagram::BYTES_LIMIT)
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
          deliver(packet)
        end
        taken
      rescue SystemCallError => error # such as an unreachable address of an earlier send
        @hub.complaints.add(@listener, error.message)
        taken
      end

      # Reports and skips an unreadable datagram. Cuts one beyond the limit.
      def deliver(packet)
        bytes, host = packet.bytes, host(packet.sockaddr)
        if bytes.bytesize > @limit
          @hub.overlong("#{@listener} (#{host})", 1)
          bytes = bytes.byteslice(0, @limit)
        end
        @hub.ingest.datagram(@input.kind, bytes, @hub.time_ns, host)
      rescue *Connection::FAULTS => error
        @hub.report_fault(error, "#{@listener}: ")
      end

      def host(sockaddr)
        @hosts.clear if @hosts.size >= HOSTS_LIMIT
        @hosts[sockaddr] ||= (sockaddr && Datagram::Peer.new(sockaddr).host) || Socket.gethostname
      end

      # A Unix socket, whose packets may be longer than those of UDP. Reads one more byte than the
      # limit, which shows that a packet is longer.
      class Local
        Packet = Struct.new(:bytes, :sockaddr)

        def initialize(socket, limit)
          @socket, @limit = socket, limit
          @buffer = String.new(capacity: limit + 1)
        end

        def receive(timeout:)
          bytes = @socket.recv_nonblock(@limit + 1, 0, @buffer, exception: timeout != 0)
          Packet.new(bytes) if bytes.is_a?(String)
        end

        def pending? = false
      end
    end
  end
end
