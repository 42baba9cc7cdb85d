# frozen_string_literal: true

# Both ends of connections over TCP and Unix sockets: Client connects (EventMachine.connect and
# reconnect), Acceptor listens (start_server). Packets is a UDP socket (open_datagram_socket).

module Gyre
  module EventMachine
    module Descriptors
      # A stream that connects to a server.
      class Client < Stream
        RETRY_S = 0.01
        private_constant :RETRY_S

        def initialize(reactor, socket, address)
          super(reactor, socket)
          @connecting = true
          limits.start
          @address = address
          attempt
        rescue Errno::ENOENT, Errno::ECONNREFUSED => error
          raise unless address.unix? # nothing listens there

          unbound
          raise "no connection: #{error.message}"
        rescue SystemCallError => error
          fail_with(error)
        end

        # Becomes the descriptor of a Connection whose former descriptor has ended.
        def reopen(connection)
          @connection = connection
          @reactor.conns[@signature] = connection
          connection.__send__(:bind_to, @signature)
          connection
        end

        def connecting? = @connecting

        # Keeps the error of an attempt to connect, because the system reports it once.
        def error?
          return super unless @connecting

          @refusal ||= super
        end

        def readable = (super unless @connecting)

        def writable = @connecting ? connected : super

        private

        def attempt
          return if over?

          io.connect_nonblock(@address, exception: false)
          await_room
        rescue Errno::EAGAIN # the queue of a Unix socket's server is full
          @reactor.add_timer(RETRY_S, method(:attempt))
        rescue SystemCallError => error
          @connection ? fail_with(error) : raise
        end

        def connected
          return fail_with(@refusal) if error?

          @connecting = false
          limits.start
          @active_at = Clock.now
          begin
            guarded { @connection.__send__(:connection_completed) }
          ensure # the connection goes on after an exception that the error handler takes
            go_on unless over?
          end
        end

        def go_on
          send_queued
          watch
          @reactor.emit(self) if @ending || @handshake
        end

        def sends? = !@connecting && super

        def room_calls_back? = @connecting || super

        def reads? = !@connecting && super

        def drained?
          return super unless @connecting

          @ending&.step == :now
        end
      end

      # A listening socket. Makes a Stream with its own connection for each client.
      class Acceptor < Descriptor
        # The server's side of a connection.
        Accepted = Class.new(Stream) { def server? = true }

        attr_reader :io

        # The socket is a TCPServer or a UNIXServer, because their accept does not make an Addrinfo.
        def initialize(reactor, socket, handler)
          @io = socket
          super(reactor)
          reactor.acceptors[@signature] = handler
          watch
        end

        def readable
          handler, arguments, block = @reactor.acceptors.fetch(@signature)
          EventMachine.get_simultaneous_accept_count.times do
            return if over?

            socket = accept or return
            connection = Accepted.new(@reactor, socket).open(handler, arguments)
            block&.call(connection)
          end
        end

        private

        # Pauses the acceptor after an error such as too many open descriptors, but not if only the
        # client has gone.
        def accept
          socket = @io.accept_nonblock(exception: false)
          return if socket == :wait_readable

          socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1) if @io.is_a?(TCPServer)
          socket
        rescue *Listener::GONE
          nil
        rescue SystemCallError
          pause
          @reactor.add_timer(Listener::PAUSE_S, method(:resume))
          nil
        end

        def unbound
          @reactor.acceptors.delete(@signature)
          super
        end
      end

      # A UDP socket. Datagram receives many packets in one call. An answer to a packet's sender
      # leaves at the turn's end.
      class Packets < Descriptor
        # Number of kept addresses above which all are dropped.
        PEERS = 64

        def initialize(reactor, address)
          @datagram = Gyre.datagram(address, shared: true)
          @peers = {} # [host, port] => Peer
          @packet = nil
          super(reactor)
        end

        def io = @datagram.to_io

        def readable
          @active_at = Clock.now
          guarded { take_packets }
        ensure
          more
        end

        # Sends to the last packet's sender.
        def send_data(data)
          return over? ? -1 : 0 unless @packet && !over?

          @packet.reply(data)
          data.bytesize
        end

        def send_datagram(data, host, port)
          return -1 if over?

          @peers.clear if @peers.size > PEERS
          @datagram.send(data, to: @peers[[host, port]] ||= Datagram::Peer.new(Socket.sockaddr_in(port, host)))
        rescue SystemCallError
          -1 # as if the packet were lost
        rescue SocketError => error
          raise ConnectionError, "unable to resolve address: #{error.message}"
        end

        def peername = @packet&.sockaddr

        def unsent_bytes = 0

        private

        def take_packets
          until @paused || @ending
            @packet = receive or return
            @connection.__send__(:receive_data, @packet.bytes)
            return unless @datagram.pending?
          end
        end

        # Calls `ready` again for packets that Datagram holds, as the kernel no longer reports them.
        def more = (@reactor.emit(self) if !@paused && !@ending && @datagram.pending?)

        def switch(paused) = super.tap { more }

        def receive
          @datagram.take(0)
        rescue SystemCallError, IOError
          nil # a packet that did not arrive
        end

        def shut = @datagram.close
      end
    end
  end
end
