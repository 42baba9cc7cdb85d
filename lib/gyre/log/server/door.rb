# frozen_string_literal: true

# Where messages and connections come in: a Door is one listening socket on the hub's loop, a Mailbox one that datagrams come to. Made
# from a Gyre::Log::Input by the server. They know no protocol.

require "gyre/log/server/connection"
require "gyre/log/wire/origin"
require "gyre/log/server/transport"

module Gyre
  module Log
    # Accepts.
    class Door
      # How many at once: others wait meanwhile.
      ACCEPTS = 64
      # How long it leaves off when nothing can be accepted: the process or the machine is out of descriptors or memory, say.
      REST_S = 1.0
      # Errors of a network that a connection has met before it was accepted (accept(2), "Error handling"): it has gone again.
      GONE = [Errno::ECONNABORTED, Errno::ECONNRESET, Errno::ENETDOWN, Errno::EPROTO, Errno::ENOPROTOOPT, Errno::EHOSTDOWN,
              Errno::EHOSTUNREACH, Errno::ENETUNREACH, Errno::EOPNOTSUPP, Errno::EPERM, Errno::ETIMEDOUT].freeze

      # @return [Gyre::Listener]
      attr_reader :listener
      # @return [Input]
      attr_reader :input

      # @param hub [Hub]
      # @param listener [Gyre::Listener]
      # @param input [Input]
      def initialize(hub, listener, input)
        @hub, @listener, @input = hub, listener, input
        @open = false
      end

      # @return [void]
      def open
        return if @open || @listener.closed?

        @hub.loop.watch_io(self, @listener.socket)
        @open = true
      end

      # Takes no more.
      #
      # @return [void]
      def shut
        @open = false
        @hub.loop.unwatch(self)
      end

      # After a pause of all reading, or a rest.
      #
      # @return [void]
      def resume
        open
      rescue SystemCallError, NoMemoryError => error
        rest(error)
      end

      # @return [void]
      def ready
        return unless @open
        return @hub.brake.park(tap { shut }) if @hub.held?

        @hub.look_at_clock
        ACCEPTS.times do
          case accepted = accept
          when Array then admit(*accepted)
          when nil then break
          end
        end
      end

      private

      # @return [Array(Socket, Addrinfo), Symbol, nil] :gone: one less waits; nil: none can be had now
      def accept
        result = @listener.socket.accept_nonblock(exception: false)
        result unless result == :wait_readable
      rescue *GONE
        :gone
      rescue SystemCallError => error
        rest(error)
        nil
      end

      def rest(error)
        shut
        @hub.complaints.add(@listener, "no connection can be accepted: #{error.message}", "error")
        @hub.later(REST_S, self)
      end

      def admit(socket, address)
        peer, origin = peer(socket, address)
        return turn_away(socket, peer) if @hub.full?

        if address.ip?
          socket.setsockopt(:TCP, :NODELAY, true)
          socket.setsockopt(:SOCKET, :KEEPALIVE, true)
        end
        @hub.admit(Connection.new(@hub, @input.transport(socket), peer, @input, origin))
      rescue SystemCallError # it has gone again
        socket.close
      end

      def turn_away(socket, peer)
        @hub.complaints.add(peer, "too many connections (#{@hub.limits.connections_limit})")
        socket.write_nonblock("error: too many connections\n", exception: false) if @input.plain? && @input.kind != :syslog
      rescue SystemCallError
        nil # it has gone
      ensure
        socket.close
      end

      # @return [Array(String, Origin)]
      def peer(socket, address)
        return [address.inspect_sockaddr, Origin.seen(address)] if address.ip?

        pid, uid, = socket.getsockopt(:SOCKET, :PEERCRED).unpack("i3")
        ["#{@listener} (process #{pid}, user #{uid})", Origin.seen(address, (pid if pid.positive?))] # 0: beyond its namespace
      rescue SystemCallError, SocketError
        [@listener.to_s, Origin.seen(address)] # a system without such a thing
      end
    end

    # Takes datagrams.
    class Mailbox < Door
      # How many at once.
      READS = 256
      # The largest that there is.
      BYTES = 65_536
      # What may wait in the kernel, as far as that allows it (net.core.rmem_max): senders of datagrams cannot be held back.
      WAITING_BYTES = 4 * 1_048_576

      def initialize(*)
        super
        @listener.socket.setsockopt(:SOCKET, :RCVBUF, WAITING_BYTES)
      end

      # @return [void]
      def ready
        return unless @open
        return @hub.brake.park(tap { shut }) if @hub.paused?

        # What comes for an output that is full is dropped and counted: the others' shall not wait in the kernel with it.
        @hub.fed(nil, take)
      end

      private

      # @return [Integer] bytes that came
      def take
        taken = 0
        READS.times do
          bytes = @listener.socket.recv_nonblock(BYTES, 0, @hub.buffer, exception: false)
          break if bytes == :wait_readable
          next if bytes.nil? # an empty one

          taken += bytes.bytesize
          deliver(bytes)
        end
        taken
      rescue SystemCallError => error # one that we never sent something to has gone, for instance
        @hub.complaints.add(@listener, error.message)
        taken
      end

      # A datagram that cannot be read costs only itself.
      def deliver(bytes)
        @hub.ingest.datagram(@input.kind, bytes, @hub.time_ns)
      rescue *Connection::FAULTS => error
        @hub.report_fault(error, "#{@listener}: ")
      end
    end
  end
end
