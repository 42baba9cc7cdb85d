# frozen_string_literal: true

# One socket on the hub's loop that datagrams come to: each is a message. Made from a
# Gyre::Log::Input by the server.

require "gyre/log/server/acceptor"

module Gyre
  module Log
    # Takes datagrams.
    class DatagramReceiver < Acceptor
      # How many at once, and what came with the last one.
      READS = 250
      # What may wait in the kernel, as far as that allows it (net.core.rmem_max): senders of
      # datagrams cannot be held back.
      WAITING_BYTES = 4 * 1_048_576

      def initialize(*)
        super
        @socket = Datagram.new(@listener.socket, @listener, nil, Datagram::BYTES_LIMIT)
        @listener.socket.setsockopt(:SOCKET, :RCVBUF, WAITING_BYTES)
      end

      def ready
        return unless @open
        return @hub.backpressure.park(tap { pause }) if @hub.paused?

        # What comes for an output that is full is dropped and counted: the others' must not wait in
        # the kernel with it.
        @hub.received(nil, take)
      end

      private

      # @return [Integer] bytes that came
      def take
        taken = reads = 0
        while reads < READS || @socket.pending?
          packet = @socket.receive(timeout: 0) or break
          reads += 1
          taken += packet.bytes.bytesize
          deliver(packet.bytes)
        end
        taken
      rescue SystemCallError => error # the address is unreachable for what was sent from here, for instance
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
