# frozen_string_literal: true

# One socket on the hub's loop that datagrams come to: each is a message. Made from a Gyre::Log::Input by the server.

require "gyre/log/server/acceptor"

module Gyre
  module Log
    # Takes datagrams.
    class DatagramReceiver < Acceptor
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

      def ready
        return unless @open
        return @hub.backpressure.park(tap { pause }) if @hub.paused?

        # What comes for an output that is full is dropped and counted: the others' must not wait in the kernel with it.
        @hub.received(nil, take)
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
