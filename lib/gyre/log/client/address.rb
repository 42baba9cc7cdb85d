# frozen_string_literal: true

# Where a log client's server is and what the client shows there. Made by Gyre::Log::Client, read by
# Gyre::Log::ServerConnection. Immutable.

require "gyre/net"
require "gyre/log/wire/origin"
require "gyre/log/wire"

module Gyre
  module Log
    # A server and a service at it.
    class Address
      # What an address may leave out.
      HOST = "127.0.0.1"
      PORT = 6766
      private_constant :HOST, :PORT

      # @return [String]
      attr_reader :service
      # @return [Gyre::Endpoint]
      attr_reader :endpoint
      # @return [TLS::Context, nil]
      attr_reader :tls
      # @return [Numeric] seconds
      attr_reader :connect_timeout

      # @param address [String, Integer, Gyre::Endpoint, nil] tcp://host:port, unix:///path,
      #   host:port, a port; nil: host and port
      # @param host [String, nil]
      # @param port [Integer, nil]
      # @param tls [Boolean, Hash, TLS::Context, nil] true: the system's authorities; a Hash: what
      #   {TLS.client} takes
      # @raise [ArgumentError]
      def initialize(service, address: nil, host: nil, port: nil, key: nil, tls: nil, connect_timeout: 5)
        raise ArgumentError, "address cannot stand beside host and port" if address && (host || port)

        @service = service
        @endpoint = address ? given(address) : Endpoint.new(:tcp, host: (host || HOST).to_s, port: Integer(port || PORT))
        @key = key.to_s
        @tls = context(tls)
        @connect_timeout = connect_timeout
        authentication(nil) # raises what a frame cannot carry
        return if @endpoint.path || @endpoint.port.between?(1, 65_535)

        raise ArgumentError, "the port must be a number from 1 to 65535, not #{@endpoint.port}"
      end

      # @return [String, nil] nil for a Unix socket
      def host = @endpoint.host

      # @return [Integer, nil] nil for a Unix socket
      def port = @endpoint.port

      # @return [Array] what no other server's address has, for the names of spools
      def parts = @endpoint.path ? ["unix", @endpoint.path] : [@endpoint.host, @endpoint.port]

      # The frame that opens a connection.
      # @param identity [Identity, nil] nil for the old protocol
      # @param adopted [Boolean] whether the records are another process's, which has ended
      # @return [String]
      def authentication(identity, adopted: false)
        words = "authentication"
        words += "/2 client=#{identity.client_id}#{" secret=#{identity.secret}" if identity.secret}" if identity
        origin = Origin.words(adopted ? nil : Process.pid) if identity
        words += " #{origin}" if origin && room?(words, origin)
        Wire.frame(@service, words, @key)
      end

      # @return [String]
      def to_s = "the log server #{@endpoint.to_s.delete_prefix("tcp://")}"

      # @return [String] without the key
      def inspect
        "#<#{self.class} #{service.inspect} at #{@endpoint.to_s.delete_prefix("tcp://")}>"
      end

      private

      # A daemon changes its folder.
      def given(address)
        endpoint = Endpoint.parse(address, host: HOST, port: PORT)
        raise ArgumentError, "#{endpoint} names no host to connect to" if endpoint.host == "*"
        return endpoint if endpoint.path.nil? || endpoint.path.start_with?("@")

        Endpoint.new(:unix, path: File.expand_path(endpoint.path))
      end

      # A key may be so long that a frame has no room for more.
      def room?(*parts)
        Wire::FRAME_BYTES_LEAST + [@service, *parts, @key].sum(&:bytesize) + 1 < Wire::FRAME_BYTES_LIMIT
      end

      def context(tls)
        tls.is_a?(Hash) ? TLS.client(**tls) : TLS.context(tls, server: false)
      end
    end
  end
end
