# frozen_string_literal: true

# One listening socket on the hub's loop: accepts connections and admits them to the hub. Made from
# a Gyre::Log::Input by the server. It has no protocol.

require "gyre/log/server/connection"
require "gyre/log/wire/origin"
require "gyre/net/listener"

module Gyre
  module Log
    # Accepts.
    class Acceptor
      # How many at once: others wait meanwhile.
      ACCEPTS = 64

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

      def open
        return if @open || @listener.closed?

        @hub.loop.watch_io(self, @listener.socket)
        @open = true
      end

      # Takes no more until it is opened again.
      def pause
        @open = false
        @hub.loop.unwatch(self)
      end

      # After a pause.
      def resume
        open
      rescue SystemCallError, NoMemoryError => error
        pause_after(error)
      end

      def ready
        return unless @open
        return @hub.backpressure.park(tap { pause }) if @hub.held?

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
      rescue SystemCallError # it has gone again
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

      # @return [Array(String, Origin)]
      def peer(socket, address)
        return [address.inspect_sockaddr, Origin.seen(address)] if address.ip?

        pid, uid, = socket.getsockopt(:SOCKET, :PEERCRED).unpack("i3")
        ["#{@listener} (process #{pid}, user #{uid})", Origin.seen(address, (pid if pid.positive?))] # 0: beyond its namespace
      rescue SystemCallError, SocketError
        [@listener.to_s, Origin.seen(address)] # a system without such a thing
      end
    end
  end
end
