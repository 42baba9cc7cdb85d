# frozen_string_literal: true

# Sends and receives packets over UDP or Unix datagram sockets. A wait lets other fibers run,
# or blocks its thread if no scheduler is set. ext/gyre/net/datagram* moves packets; this file
# has addresses and methods. Made by Gyre.datagram.
require "gyre/loop"
require "gyre/net/endpoint"

Gyre::Loop.define_native(:net)

module Gyre
  # Opens a datagram socket and binds it, connects it, or both.
  # @example a server
  #   Gyre.datagram("udp://127.0.0.1:7007") do |socket|
  #     socket.each { |packet| packet.reply(packet.bytes) }
  #   end
  # @example a client
  #   Gyre.datagram(connect: "udp://127.0.0.1:7007") do |socket|
  #     socket.send("hello")
  #     socket.receive(timeout: 1)&.bytes
  #   end
  # @param address [String, Endpoint, nil] udp://host:port, unixgram:///path; nil: a free port
  # @param connect [String, Endpoint, nil] see {Datagram#connect}
  # @param bytes_limit [Integer] largest packet received whole, up to 65,536
  # @param shared [Boolean] true: other sockets may bind the port too, as for multicast
  #   (SO_REUSEADDR), and packets may go to broadcast addresses (SO_BROADCAST; socket(7))
  # @yieldparam socket [Datagram] closed after the block
  # @return [Datagram, Object] or the block's value
  # @raise [ArgumentError] an invalid address, or none
  # @raise [SystemCallError, SocketError] the address is unavailable
  # @raise [ExtensionRequired] without the C extension
  def self.datagram(address = nil, connect: nil, bytes_limit: Datagram::BYTES_LIMIT, shared: false)
    Loop.require_native("Gyre.datagram")
    raise ArgumentError, "an address is missing: give one to receive at, or connect: one" unless address || connect

    socket = address ? Datagram.bind(address, bytes_limit, shared) : Datagram.unbound(connect, bytes_limit)
    begin
      socket.to_io.setsockopt(:SOCKET, :BROADCAST, true) if shared
      socket.connect(connect) if connect
      opened = true
      block_given? ? yield(socket) : socket
    ensure
      socket.close if block_given? || !opened
    end
  end

  # Sends and receives packets, which the network may lose.
  class Datagram
    # Default and maximum of `bytes_limit`; no UDP packet is larger.
    BYTES_LIMIT = 65_536
    # @api private
    TRANSPORTS = %i[udp unixgram].freeze
    # A sockaddr without a path: the kernel chooses a name to which peers reply (unix(7), autobind).
    AUTOBIND = [Socket::AF_UNIX].pack("S").freeze
    private_constant :AUTOBIND

    # The address of a sender or recipient. Can be a key of a Hash.
    class Peer
      # @return [String] struct sockaddr
      attr_reader :sockaddr

      # @api private
      def initialize(sockaddr)
        @sockaddr = sockaddr.freeze
      end

      # @return [String, nil] IP address; nil over a Unix socket
      def host
        return unless address&.ip?

        address.ipv6_v4mapped? ? address.ipv6_to_ipv4.ip_address : address.ip_address
      end

      # @return [Integer, nil]
      def port = (address.ip_port if address&.ip?)

      # @return [String, nil] a Unix socket's path, "@…" if abstract; nil over UDP
      def path
        return unless address&.unix?

        address.unix_path.sub(/\A\0/, "@") unless address.unix_path.empty?
      end

      # @return [String] udp://host:port, unixgram:///path
      def to_s
        return "udp://#{host.include?(":") ? "[#{host}]" : host}:#{port}" if host

        "unixgram://#{path}"
      end

      # @return [Boolean]
      def ==(other)
        other.is_a?(Peer) && sockaddr == other.sockaddr
      end
      alias eql? ==

      # @return [Integer]
      def hash = sockaddr.hash

      # @return [String]
      def inspect = "#<#{self.class} #{self}>"

      private

      def address = (@address ||= Addrinfo.new(sockaddr) unless sockaddr.empty?)
    end

    # A received packet.
    class Packet
      # @return [Peer] its sender
      def peer = Peer.new(sockaddr)

      # @return [String]
      def inspect = "#<#{self.class} #{bytes.bytesize} bytes from #{peer}#{" truncated" if truncated?}>"
    end

    class << self
      # @api private
      def bind(address, bytes_limit, shared)
        endpoint = Endpoint.parse(address, port: 0, transports: TRANSPORTS)
        listener = endpoint.path ? Listener.unix(endpoint, backlog: 0) : bind_ip(endpoint, shared)
        new(listener.socket, listener, listener, bytes_limit)
      rescue ArgumentError
        listener&.close
        raise
      end

      # @api private
      def unbound(peer, bytes_limit)
        address = resolve(peer)
        socket = Socket.new(address.afamily, :DGRAM)
        autobind(socket) if address.unix?
        new(socket, "a datagram socket", nil, bytes_limit)
      rescue StandardError
        socket&.close
        raise
      end

      # @param address [String, Endpoint]
      # @param family [Integer, nil] the socket's; an IPv6 one also reaches IPv4 addresses
      # @return [Addrinfo]
      # @api private
      def resolve(address, family = nil)
        endpoint = Endpoint.parse(address, port: 0, transports: TRANSPORTS)
        return Addrinfo.unix(endpoint.unix_address.unix_path, :DGRAM) if endpoint.path

        all = Addrinfo.getaddrinfo(endpoint.host, endpoint.port, nil, :DGRAM)
        return all.first unless family

        all.find { |one| one.afamily == family } || mapped(all.first, family)
      rescue SocketError => error
        raise error.class, "resolve #{endpoint}: #{error.message}"
      end

      private

      def mapped(address, family)
        raise SocketError, "an IPv4 socket does not reach #{address.ip_address}" if family == Socket::AF_INET

        Addrinfo.udp("::ffff:#{address.ip_address}", address.ip_port)
      end

      # Binds "*" for IPv4 and IPv6 with one socket; on a machine that has no IPv6, for IPv4.
      def bind_ip(endpoint, shared)
        return Listener.ip(endpoint.with(host: resolve(endpoint).ip_address), backlog: 0, reuse: shared) unless endpoint.host == "*"

        begin
          Listener.ip(endpoint.with(host: "::"), backlog: 0, only_v6: false, reuse: shared)
        rescue Errno::EAFNOSUPPORT, Errno::EADDRNOTAVAIL
          Listener.ip(endpoint.with(host: "0.0.0.0"), backlog: 0, reuse: shared)
        end
      end

      def autobind(socket)
        socket.bind(AUTOBIND)
      rescue SystemCallError
        nil # the system has no autobind: peers cannot reply
      end
    end

    # @api private
    # @param io [Socket]
    # @param name [#to_s] for messages
    # @param listener [Listener, nil] closes a bound socket
    # @param bytes_limit [Integer]
    def initialize(io, name, listener, bytes_limit)
      use(io, bytes_limit)
      @name = name.to_s
      @listener = listener
    end

    # Restricts sending and receiving to one peer.
    # @param address [String, Endpoint, Peer]
    # @return [self]
    # @raise [SystemCallError, SocketError]
    def connect(address)
      to_io.connect(sockaddr(address))
      @name = "#{name} to #{address}"
      self
    rescue SystemCallError => error
      raise error.class, "connect #{name} to #{address}"
    end

    # Waits for a packet.
    # @param timeout [Numeric, nil] seconds; nil: no limit
    # @return [Packet, nil] nil after the timeout
    # @raise [IOError] the socket is or gets closed
    # @raise [SystemCallError] Errno::ECONNREFUSED: nothing receives at the connected peer (udp(7))
    def receive(timeout: nil) = take(timeout)

    # Yields each packet until the socket is closed.
    # @yieldparam packet [Packet]
    # @return [self, Enumerator]
    # @raise [SystemCallError] as {#receive}
    def each
      return enum_for(:each) unless block_given?

      while (packet = next_packet)
        yield packet
      end
      self
    end

    # Sends a packet at once.
    # @param bytes [String]
    # @param to [Packet, Peer, String, Endpoint, nil] destination; nil: the connected peer
    # @return [Integer] bytes
    # @raise [SystemCallError] Errno::EMSGSIZE, ECONNREFUSED (udp(7)), EAGAIN (Unix: queue full)
    def send(bytes, to: nil) = transmit(bytes, to.nil? || to.is_a?(Packet) ? to : sockaddr(to))

    # @return [Integer, nil] the local UDP port
    def port
      address = to_io.local_address
      address.ip_port if address.ip?
    end

    # @return [Peer] the local address
    def local = Peer.new(to_io.local_address.to_sockaddr)

    # Sends pending replies and closes the socket. Repeated calls do nothing.
    # @return [nil]
    def close
      return if closed?

      flush
      (@listener || to_io).close
    end

    # @return [Boolean]
    def closed? = to_io.closed?

    # @return [String]
    def inspect = "#<#{self.class} #{name}#{" closed" if closed?}>"

    private

    attr_reader :name

    def next_packet
      take(nil)
    rescue IOError
      raise unless closed?
    end

    def sockaddr(address)
      return address.sockaddr if address.is_a?(Peer)

      Datagram.resolve(address, to_io.local_address.afamily).to_sockaddr
    end
  end
end
