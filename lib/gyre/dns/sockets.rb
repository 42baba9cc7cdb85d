# frozen_string_literal: true

# The sockets of a DNS server: binds UDP and TCP at each address, or adopts the sockets of a parent
# process or of a former program. Made by Server, and by `gyre dns`. Reads no packet.
require "gyre/net"

module Gyre
  module DNS
    # @api private
    class Sockets
      CHOSEN_PORT_TRIES = 20
      # A listener, the address for which it was bound, and that address's TLS settings and index.
      Bound = Struct.new(:listener, :origin, :tls, :index)
      private_constant :CHOSEN_PORT_TRIES, :Bound

      # Each address gets a UDP socket for each of `workers`; the kernel spreads packets among these
      # sockets (SO_REUSEPORT).
      def initialize(addresses = [], workers: 1)
        @workers = workers
        @bound = []
        open(addresses)
      end

      # Adopts the addresses' inherited sockets, as {#to_a} has described them, and unless `bind` is
      # false, binds the missing ones. Returns the inherited sockets of other addresses. On an
      # error, closes all sockets.
      def open(addresses, inherited: [], bind: true)
        addresses.each_with_index do |text, index|
          transport, address = Sockets.parse(text)
          origins = (transport == :both ? %i[tcp udp] : [transport]).to_h { |kind| [kind, "#{kind}://#{address.host}:#{address.port}"] }
          mine, inherited = inherited.partition { |socket| origins.value?(socket.origin) }
          listeners = mine.map { |socket| adopt(socket, origins.key(socket.origin)) }
          missing = bind ? origins.keys - listeners.map { |listener| listener.endpoint.transport } : []
          listeners += bind(address.with(port: listeners.first&.port || address.port), missing) if missing.any?
          @bound.concat(listeners.map { |listener| Bound.new(listener, origins[listener.endpoint.transport], address.tls, index) })
        end
        inherited
      rescue StandardError
        close
        raise
      end

      # Returns :udp, :tcp or :both, and the Endpoint.
      def self.parse(address)
        return parse("#{address[0]}://#{address[1].to_s.include?(":") ? "[#{address[1]}]" : address[1]}:#{address[2] || 53}") if address.is_a?(Array)

        text = address.to_s
        port = text.match?(/\A(?:tls|ssl):/) ? 853 : 53
        endpoint = Endpoint.parse(address, port: port, transports: %i[udp tcp], tls: true)
        [text.match?(%r{\A\w+://}) ? endpoint.transport : :both, endpoint]
      end

      def listeners = @bound.map(&:listener)

      # Returns the UDP sockets of the worker with this index. If a former program had another
      # number of workers, some have several sockets of an address, or share one.
      def packets(worker)
        listeners.select(&:datagram?).group_by(&:to_s).each_value.flat_map do |sockets|
          (worker % sockets.size).step(sockets.size - 1, @workers).map { |index| sockets[index] }
        end
      end

      # Yields the TCP listeners and the TLS settings of each address.
      def each_stream
        @bound.reject { |bound| bound.listener.datagram? }.group_by(&:index).each_value { |all| yield all.map(&:listener), all.first.tls }
      end

      def endpoints = @bound.map { |bound| bound.listener.endpoint.with(tls: bound.tls) }.uniq(&:to_s)

      # Describes the sockets for Gyre::Cluster::Sockets.from.
      def to_a
        @bound.map do |bound|
          endpoint = bound.listener.endpoint
          { descriptor: bound.listener.fileno, origin: bound.origin, host: endpoint.host, port: endpoint.port, owned: true }
        end
      end

      def close = listeners.each(&:close)

      private

      def adopt(socket, transport)
        Listener.adopt(socket.descriptor, Endpoint.new(transport, host: socket.host, port: socket.port), owned: socket.owned)
      end

      # Binds TCP first, because free TCP ports are rarer.
      def bind(address, kinds, tries = CHOSEN_PORT_TRIES)
        streams = kinds.include?(:tcp) ? address.with(tls: nil).bind : []
        [*streams, *(bind_packets(address, streams.first&.port || address.port) if kinds.include?(:udp))]
      rescue SystemCallError => error
        streams&.each(&:close)
        # Tries again if another UDP socket has the port that the kernel chose for TCP.
        raise unless error.is_a?(Errno::EADDRINUSE) && address.port.zero? && (tries -= 1).positive?

        retry
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
