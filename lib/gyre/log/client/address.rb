# frozen_string_literal: true

# A log client's server address, service and key. Immutable. Made by Gyre::Log::Client.

require "gyre/net"
require "gyre/log/wire/origin"
require "gyre/log/wire"

module Gyre
  module Log
    class Address
      HOST = "127.0.0.1"
      PORT = 6766

      attr_reader :service
      attr_reader :endpoint
      attr_reader :tls
      attr_reader :connect_timeout

      # `tls` is true (the system's authorities), a Hash for {TLS.client}, a TLS::Context, or nil.
      def initialize(service, address: nil, host: nil, port: nil, key: nil, tls: nil, connect_timeout: 5)
        raise ArgumentError, "address cannot stand beside host and port" if address && (host || port)

        @service = service
        @endpoint = address ? given(address) : Endpoint.new(:tcp, host: (host || HOST).to_s, port: Integer(port || PORT))
        @key = key.to_s
        @tls = context(tls)
        @connect_timeout = connect_timeout
        authentication(nil) # raises if a frame cannot carry it
        return if @endpoint.path || @endpoint.port.between?(1, 65_535)

        raise ArgumentError, "the port must be a number from 1 to 65535, not #{@endpoint.port}"
      end

      # Returns the parts of a spool's name that identify the server.
      def parts = @endpoint.path ? ["unix", @endpoint.path] : [@endpoint.host, @endpoint.port]

      # Returns the frame that opens a connection. `adopted`: an ended process made the records.
      def authentication(identity, adopted: false)
        words = "authentication"
        words += "/2 client=#{identity.client_id}#{" secret=#{identity.secret}" if identity.secret}" if identity
        origin = Origin.words(adopted ? nil : Process.pid) if identity
        words += " #{origin}" if origin && room?(words, origin)
        Wire.frame(@service, words, @key)
      end

      def to_s = "the log server #{@endpoint.to_s.delete_prefix("tcp://")}"

      def inspect = "#<#{self.class} #{service.inspect} at #{@endpoint.to_s.delete_prefix("tcp://")}>"

      private

      # Makes the path absolute, because a daemon changes its working directory.
      def given(address)
        endpoint = Endpoint.parse(address, host: HOST, port: PORT)
        raise ArgumentError, "#{endpoint} names no host to connect to" if endpoint.host == "*"
        return endpoint if endpoint.path.nil? || endpoint.path.start_with?("@")

        Endpoint.new(:unix, path: File.expand_path(endpoint.path))
      end

      # True if a frame has room for the parts; a long key may leave none.
      def room?(*parts) = Wire::FRAME_BYTES_LEAST + [@service, *parts, @key].sum(&:bytesize) + 1 < Wire::FRAME_BYTES_LIMIT

      def context(tls) = tls.is_a?(Hash) ? TLS.client(**tls) : TLS.context(tls, server: false)
    end
  end
end
