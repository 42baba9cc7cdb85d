# frozen_string_literal: true

# A UDP socket. Datagram moves many packets in one call; an answer to a packet's sender leaves at
# the turn's end.

module Gyre
  module EventMachine
    module Descriptors
      class Packets < Descriptor
        # The most addresses kept.
        PEERS = 64

        def initialize(reactor, address)
          @datagram = Gyre.datagram(address)
          @peers = {} # [host, port] => Peer
          @packet = nil
          super(reactor)
        end

        def io = @datagram.to_io

        # Takes the packets that one system call gives.
        def readable
          @active_at = Clock.now
          guarded { take_packets }
        ensure
          more
        end

        # Sends to the last packet's sender.
        def send_data(data)
          return 0 unless @packet && !over?

          @packet.reply(data)
          data.bytesize
        end

        def send_datagram(data, host, port)
          return -1 if over?

          @peers.clear if @peers.size > PEERS
          @datagram.send(data, to: @peers[[host, port]] ||= Datagram::Peer.new(Socket.sockaddr_in(port, host)))
        rescue SystemCallError
          -1 # as if it had got lost
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

        # The kernel no longer reports packets that the datagram socket holds.
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
