# frozen_string_literal: true

# A listening socket: each client becomes a Stream with a connection of its own. Made by
# EventMachine's start_server functions.

module Gyre
  module EventMachine
    module Descriptors
      class Acceptor
        # The server's side of a connection.
        class Accepted < Stream
          def server? = true
        end

        attr_reader :signature, :io

        # The socket is a TCPServer or a UNIXServer, whose accept makes no address of the peer.
        def initialize(reactor, socket, handler)
          @reactor = reactor
          @io = socket
          @signature = reactor.signature
          reactor.descriptors[@signature] = self
          reactor.acceptors[@signature] = handler
          @over = false
          reactor.loop.watch_io(self, socket)
        end

        def ready
          EventMachine.get_simultaneous_accept_count.times do
            return if @over

            socket = accept or return
            opened(socket)
          end
        end

        def closing? = false

        def release
          return if @over

          @over = true
          @reactor.descriptors.delete(@signature)
          @reactor.acceptors.delete(@signature)
          @reactor.loop.unwatch(self)
          @io.close
        end

        private

        # Pauses if no descriptor is free.
        def accept
          socket = @io.accept_nonblock(exception: false)
          return if socket == :wait_readable

          socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1) if @io.is_a?(TCPServer)
          socket
        rescue *Listener::GONE
          nil
        rescue SystemCallError
          @reactor.loop.unwatch(self)
          @reactor.add_timer(Listener::PAUSE_S, -> { @reactor.loop.watch_io(self, @io) unless @over })
          nil
        end

        def opened(socket)
          handler, arguments, block = @reactor.acceptors.fetch(@signature)
          connection = Accepted.new(@reactor, socket).open(handler, arguments)
          block&.call(connection)
        end
      end
    end
  end
end
