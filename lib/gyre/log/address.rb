# frozen_string_literal: true

# Where a log client's server is and what the client shows there. Made by Gyre::Log::Client, read by Gyre::Log::Uplink. Immutable.

require "gyre/log/origin"
require "gyre/log/wire"

module Gyre
  module Log
    # A server and a service at it.
    class Address
      # @return [String]
      attr_reader :host, :service
      # @return [Integer]
      attr_reader :port
      # @return [OpenSSL::SSL::SSLContext, nil]
      attr_reader :tls
      # @return [Numeric] seconds
      attr_reader :connect_timeout

      # @param tls [Boolean, Hash, OpenSSL::SSL::SSLContext, nil] true: the system's authorities; a Hash: what
      #   Gyre::TLS.client takes
      # @raise [ArgumentError]
      def initialize(service, host:, port:, key: nil, tls: nil, connect_timeout: 5)
        @service = service
        @host = host.to_s
        @port = Integer(port)
        @key = key.to_s
        @tls = context(tls)
        @connect_timeout = connect_timeout
        authentication(nil) # raises what a frame cannot carry
        raise ArgumentError, "the port must be a number from 1 to 65535, not #{port}" unless @port.between?(1, 65_535)
      end

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
      def to_s
        "the log server #{host.include?(":") ? "[#{host}]" : host}:#{port}"
      end

      # @return [String] without the key
      def inspect
        "#<#{self.class} #{service.inspect} at #{host}:#{port}>"
      end

      private

      # A key may be so long that a frame has no room for more.
      def room?(*parts)
        Wire::FRAME_BYTES_LEAST + [@service, *parts, @key].sum(&:bytesize) + 1 < Wire::FRAME_BYTES_LIMIT
      end

      def context(tls)
        return tls unless tls == true || tls.is_a?(Hash)

        require "gyre/tls"
        TLS.client(**(tls == true ? {} : tls))
      end
    end
  end
end
