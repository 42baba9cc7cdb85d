# frozen_string_literal: true

# Listening sockets that give transports: Gyre.listen. An error of one connection ends that connection only.
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

      # Serves each connection in a task of its own until the server is closed or the present task stopped.
      #
      # @param task [Task] whose children serve
      # @yieldparam transport [Transport] closed behind the block
      # @return [void]
      def each(task = Task.current, &block)
        acceptors = @listeners.map { |listener| task.async("accept on #{listener}") { |parent| accept_from(listener, parent, &block) } }
        acceptors.each(&:wait)
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

      def accept_from(listener, task, &block)
        loop do
          socket, address = listener.socket.accept
          task.async { serve(socket, address, &block) }
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
        transport = Transport.new(socket, address.ip? ? address.inspect_sockaddr : "unix client")
        socket.setsockopt(:TCP, :NODELAY, true) if address.ip?
        transport.start_tls(@context, timeout_s: @handshake_timeout_s) if @context
        yield transport
      ensure
        transport ? transport.close : socket.close
      end
    end
  end
end
