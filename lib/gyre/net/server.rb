# frozen_string_literal: true

# Gyre.listen's server: accepts connections and yields a transport for each. An error in a
# connection ends only that connection.
require "gyre/settings/units"
require "gyre/run"
require "gyre/sync/promise"

module Gyre
  # Listening and connecting sockets.
  module Net
    # Accepts connections.
    class Server
      # Errors that a peer or the network causes.
      OF_PEERS = [Errno::ECONNRESET, Errno::ECONNABORTED, Errno::EPIPE, Errno::ETIMEDOUT, Errno::EHOSTUNREACH, Errno::ENETUNREACH,
                  TLS::Error, ProtocolError].freeze
      # Minimum seconds between two reports of peers' faults.
      REPORT_S = 1.0
      private_constant :OF_PEERS, :REPORT_S

      # @return [Array<Endpoint>] bound addresses with their ports
      attr_reader :endpoints
      # @return [Hash{Symbol => Integer}] connections:, accepted:, refused:, handshakes_failed:, …
      attr_reader :stats

      # @api private
      def initialize(endpoint, context, handshake_timeout_s, connections_limit)
        unless connections_limit.is_a?(Integer) && connections_limit.positive?
          raise ArgumentError, "connections_limit must be a positive Integer, not #{connections_limit.inspect}"
        end

        @listeners = endpoint.is_a?(Array) ? endpoint : endpoint.bind
        @endpoints = @listeners.map(&:endpoint)
        @context = context
        @handshake_timeout_s = handshake_timeout_s
        @connections_limit = connections_limit
        @stats = { connections: 0, accepted: 0, refused: 0, handshakes_failed: 0, cut: 0 }
        @report_at = @unreported = 0
      end

      # @return [Integer, nil] the TCP port
      def port = endpoints.first.port

      # Yields each connection in its own task until the server is closed or the calling task is
      # stopped. Can be called anywhere, like {Gyre.run}. A block's exception ends its connection
      # and is reported. Faults of peers are reported at most once a second. Closes a connection if
      # its TLS handshake fails.
      # @yieldparam transport [Transport] closed after the block
      # @return [void]
      def each(&block)
        Gyre.run("listen on #{endpoints.join(", ")}") do |task|
          connections = task.async("connections", transient: true) { sleep }
          @listeners.map { |listener| task.async("accept on #{listener}") { accept_from(listener, connections, block) } }.each(&:wait)
        ensure
          connections&.stop
        end
      ensure
        close
      end

      # If true, connections wait in the kernel's queue, until false.
      # @api private
      def paused=(paused)
        @paused&.resolve
        @paused = (Promise.new if paused)
      end

      # @return [void]
      def close
        @listeners.each(&:close)
        self.paused = false
      end

      private

      def accept_from(listener, connections, block)
        until listener.closed?
          Fiber.scheduler.pace
          @paused&.wait
          case accepted = listener.accept
          when Array then admit(connections, *accepted, block)
          when nil then listener.to_io.wait_readable
          end
        end
      rescue SystemCallError => error
        report("cannot accept connections: #{error.message}; trying again in a second")
        sleep Listener::PAUSE_S
        retry
      rescue IOError
        raise unless listener.closed?
      end

      def admit(connections, socket, address, block)
        @stats[:accepted] += 1
        return connections.async("serve") { serve(socket, address, block) } if @stats[:connections] < @connections_limit

        @stats[:refused] += 1
        socket.close
      end

      def serve(socket, address, block)
        @stats[:connections] += 1
        socket.setsockopt(:TCP, :NODELAY, true) if address.ip?
        transport = Transport.new(socket, address.ip? ? address.inspect_sockaddr : "unix client")
        secure(transport) or return
        block.call(transport)
        ended = true
      rescue *OF_PEERS => error
        report_peer(error)
      ensure
        begin
          ended ? transport.close : socket.close # Transport#close may wait for a slow peer
        ensure
          @stats[:connections] -= 1
        end
      end

      # @return [Boolean] whether the handshake succeeded
      def secure(transport)
        transport.start_tls(@context, timeout_s: @handshake_timeout_s) if @context
        true
      rescue TLS::Error, TimeoutError, SystemCallError
        @stats[:handshakes_failed] += 1
        false
      end

      def report_peer(error)
        @stats[:cut] += 1
        return @unreported += 1 if Clock.now < @report_at

        report("#{error.message}#{" (and #{Units.count(@unreported, "more connection")} cut before)" if @unreported.positive?}")
        @report_at = Clock.now + REPORT_S
        @unreported = 0
      end

      def report(text) = $stderr.write("gyre: #{text}\n")
    end
  end
end
