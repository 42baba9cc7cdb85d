# frozen_string_literal: true

# Listening sockets that give transports: Gyre.listen. An error of one connection ends that
# connection only.
require "gyre/run"

module Gyre
  module Net
    # Accepts connections.
    class Server
      # @return [Array<Endpoint>] the addresses bound, with the ports that the kernel chose
      attr_reader :endpoints

      # @api private
      def initialize(endpoint, context, handshake_timeout_s)
        @listeners = endpoint.bind
        @endpoints = @listeners.map(&:endpoint)
        @context = context
        @handshake_timeout_s = handshake_timeout_s
      end

      # @return [Integer, nil] the TCP port
      def port
        endpoints.first.port
      end

      # Serves each connection in a task of its own until the server is closed or the present task
      # stopped, and ends those tasks then. May stand anywhere, as {Gyre.run}. What a block raises
      # ends its connection only, and is reported; a peer that fails in the TLS handshake is
      # dropped.
      #
      # @yieldparam transport [Transport] closed behind the block
      # @return [void]
      def each(&block)
        Gyre.run("listen on #{endpoints.join(", ")}") do |task|
          connections = task.async("connections", transient: true) { sleep }
          @listeners.map { |listener| task.async("accept on #{listener}") { accept_from(listener, connections, &block) } }.each(&:wait)
        ensure
          connections&.stop
        end
      ensure
        close
      end

      # @return [void]
      def close
        @listeners.each(&:close)
      end

      private

      # Out of descriptors or memory: those that end give some back.
      PAUSE_S = 0.1

      def accept_from(listener, connections, &block)
        loop do
          socket, address = listener.socket.accept
          connections.async("serve") { serve(socket, address, &block) }
        rescue Errno::ECONNABORTED
          next
        rescue Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM
          sleep PAUSE_S
        rescue IOError
          break if listener.closed?

          raise
        end
      end

      def serve(socket, address)
        socket.setsockopt(:TCP, :NODELAY, true) if address.ip?
        transport = Transport.new(socket, address.ip? ? address.inspect_sockaddr : "unix client")
        secure(transport) or return
        yield transport
        ended = true
      ensure
        ended ? transport.close : socket.close
      end

      # @return [Boolean] whether the peer made the handshake
      def secure(transport)
        transport.start_tls(@context, timeout_s: @handshake_timeout_s) if @context
        true
      rescue TLS::Error, TimeoutError, SystemCallError
        false
      end
    end
  end
end
