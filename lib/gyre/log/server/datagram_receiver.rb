# frozen_string_literal: true

# Receives datagrams of a Gyre::Log::Inlet's socket on the hub's loop.

require "gyre/log/server/acceptor"

module Gyre
  module Log
    class DatagramReceiver < Acceptor
      # Further reads in one turn.
      READS = 250
      # The kernel's buffer, up to net.core.rmem_max: datagrams have no backpressure.
      WAITING_BYTES = 4 * 1_048_576

      def initialize(*)
        super
        @socket = Datagram.new(@listener.socket, @listener, nil, Datagram::BYTES_LIMIT)
        @listener.socket.setsockopt(:SOCKET, :RCVBUF, WAITING_BYTES)
      end

      def ready
        return unless @open
        return @hub.flow.backpressure.park(tap { pause }) if @hub.flow.paused?

        # Drops messages for a full output, so that others need not wait in the kernel.
        @hub.flow.received(nil, take)
      end

      private

      # Returns the received bytes.
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
