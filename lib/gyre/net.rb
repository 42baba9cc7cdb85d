# frozen_string_literal: true

# Gyre.connect and Gyre.listen: byte streams, plain or TLS, for any program and thread. Loaded by
# `require "gyre/net"`.
require "gyre/net/endpoint"
require "gyre/net/socket_names"
require "gyre/net/tls"
require "gyre/net/transport"
require "gyre/net/datagram"
require "gyre/net/server"

module Gyre
  # Default maximum of {Gyre.listen}'s open connections; a process can have about 32,000 fibers.
  CONNECTIONS_LIMIT = 10_000
  private_constant :CONNECTIONS_LIMIT

  class << self
    # Connects to a peer.
    # @example
    #   Gyre.connect("tcp://example.org:7") do |peer|
    #     peer.write("hello\n")
    #     puts peer.gets
    #   end
    # @param address [String, Endpoint] tcp://host:port or unix:///path
    # @param tls [Boolean, Gyre::TLS::Context, nil] true: verifies by the system's authorities
    # @param timeout_s [Numeric, nil] for name, connection and TLS handshake together
    # @param only [#to_proc, nil] takes an Addrinfo of the name; false skips it
    # @yieldparam transport [Transport] closed after the block
    # @return [Transport, Object] or the block's value
    # @raise [ArgumentError] not an address, no client context, or no name to verify
    # @raise [SystemCallError] names each tried address; Errno::ETIMEDOUT: none answered in time
    # @raise [SocketError] the name has no address
    # @raise [TimeoutError, TLS::Error] of the handshake
    # @raise [ExtensionRequired] without the C extension
    def connect(address, tls: nil, timeout_s: 10, only: nil)
      Loop.require_native("Gyre.connect")
      endpoint = Endpoint.parse(address)
      tls = TLS.context(tls, server: false)
      start_s = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      transport = Transport.new(endpoint.connect(timeout_s, only: only), endpoint.to_s)
      timeout_s &&= [timeout_s - (Process.clock_gettime(Process::CLOCK_MONOTONIC) - start_s), 0].max.ceil(2)
      begin
        transport.start_tls(tls, name: endpoint.host, timeout_s: timeout_s) if tls
        secured = true
        block_given? ? yield(transport) : transport
      rescue Exception # rubocop:disable Lint/RescueException -- raised again
        transport.abandon
        raise
      ensure # also when the thread is killed
        transport.abandon unless secured
        transport.close if block_given?
      end
    end

    # Listens on an address.
    # @param address [String, Integer, Endpoint, Array<Listener>] for {Endpoint.parse}, or sockets
    # @param tls [Gyre::TLS::Context, nil] of a server
    # @param handshake_timeout_s [Numeric] for TLS
    # @param connections_limit [Integer] open at once; closes further ones
    # @return [Net::Server]
    # @raise [ArgumentError] not an address, or no server context
    # @raise [SystemCallError]
    # @raise [ExtensionRequired] without the C extension
    def listen(address, tls: nil, handshake_timeout_s: 10, connections_limit: CONNECTIONS_LIMIT)
      Loop.require_native("Gyre.listen")
      address = Endpoint.parse(address) unless address.is_a?(Array)
      Net::Server.new(address, TLS.context(tls, server: true), handshake_timeout_s, connections_limit)
    end
  end
end
