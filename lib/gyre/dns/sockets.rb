# frozen_string_literal: true

# The sockets of a DNS server: binds UDP and TCP at each address, or adopts the sockets that a
# parent process has bound. Made by Server, and by `gyre dns` for its workers. Reads no packet.
require "gyre/net"

module Gyre
  module DNS
    # @api private
    class Sockets
      CHOSEN_PORT_TRIES = 20
      # A listener, its TLS settings or nil, and the index of its address.
      Bound = Struct.new(:listener, :tls, :index)
      private_constant :CHOSEN_PORT_TRIES, :Bound

      # Each of `addresses` gets a UDP socket for each worker; the kernel spreads packets among
      # these sockets (SO_REUSEPORT). `inherited`: open sockets that {#to_a} has described.
      def initialize(addresses, workers: 1, inherited: nil)
        @workers = workers
        @bound = []
        if inherited then inherited.each { |socket| adopt(socket, addresses) }
        else addresses.each_with_index { |address, index| bind(address, index) }
        end
      rescue StandardError
        close
        raise
      end

      def listeners = @bound.map(&:listener)

      # Returns the UDP sockets of the worker with this index.
      def packets(worker) = listeners.select(&:datagram?).each_slice(@workers).map { |of_address| of_address.fetch(worker) }

      # Yields the TCP listeners and the TLS settings of each address.
      def each_stream
        @bound.reject { |bound| bound.listener.datagram? }.group_by(&:index).each_value { |all| yield all.map(&:listener), all.first.tls }
      end

      def endpoints = @bound.map { |bound| bound.listener.endpoint.with(tls: bound.tls) }.uniq(&:to_s)

      # Describes the sockets for Gyre::Cluster::Mold.
      def to_a
        @bound.map do |bound|
          endpoint = bound.listener.endpoint
          { descriptor: bound.listener.fileno, origin: "#{endpoint.transport} #{bound.index}", host: endpoint.host, port: endpoint.port }
        end
      end

      def close = listeners.each(&:close)

      private

      def adopt(socket, addresses)
        transport, index = socket.origin.split
        endpoint = Endpoint.new(transport.to_sym, host: socket.host, port: socket.port)
        @bound << Bound.new(Listener.adopt(socket.descriptor, endpoint), parse(addresses[index.to_i]).last.tls, index)
      end

      # Binds TCP first, because free TCP ports are rarer.
      def bind(address, index, tries = CHOSEN_PORT_TRIES)
        transport, endpoint = parse(address)
        streams = transport == :udp ? [] : endpoint.with(tls: nil).bind
        packets = transport == :tcp ? [] : bind_packets(endpoint, streams.first&.port || endpoint.port)
        @bound.concat([*streams, *packets].map { |listener| Bound.new(listener, endpoint.tls, index) })
      rescue SystemCallError => error
        streams&.each(&:close)
        # Tries again if another UDP socket has the port that the kernel chose for TCP.
        raise unless error.is_a?(Errno::EADDRINUSE) && endpoint.port.zero? && (tries -= 1).positive?

        retry
      end

      # Returns :udp, :tcp or :both, and the Endpoint.
      def parse(address)
        return parse("#{address[0]}://#{address[1].to_s.include?(":") ? "[#{address[1]}]" : address[1]}:#{address[2] || 53}") if address.is_a?(Array)

        text = address.to_s
        port = text.match?(/\A(?:tls|ssl):/) ? 853 : 53
        endpoint = Endpoint.parse(address, port: port, transports: %i[udp tcp], tls: true)
        [text.match?(%r{\A\w+://}) ? endpoint.transport : :both, endpoint]
      end

      # The first socket is bound without SO_REUSEPORT, so that binding fails if another server has
      # the port. Afterwards the workers' sockets share the port.
      def bind_packets(endpoint, port)
        Endpoint.new(:udp, host: endpoint.host, port: port).bind(backlog: 0).flat_map do |first|
          local = first.socket.local_address
          any = ["0.0.0.0", "::"].include?(local.ip_address)
          [first, *Array.new(@workers - 1) { share(first) }].each do |listener|
            # The response must leave from the address to which the question was sent.
            listener.socket.setsockopt(*(local.ipv6? ? %i[IPV6 RECVPKTINFO] : %i[IP PKTINFO]), true) if any
          end
        end
      end

      def share(first)
        address = first.socket.local_address
        socket = Socket.new(address.afamily, :DGRAM)
        [first.socket, socket].each { |each| each.setsockopt(:SOCKET, :REUSEPORT, true) }
        socket.setsockopt(:IPV6, :V6ONLY, first.socket.getsockopt(:IPV6, :V6ONLY).bool) if address.ipv6?
        socket.bind(address)
        Listener.new(socket, first.endpoint)
      end
    end
  end
end
