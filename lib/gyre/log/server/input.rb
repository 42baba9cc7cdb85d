# frozen_string_literal: true

# What the log server listens for, and where: its main port, for Analogger's clients and ours, and
# further inputs for syslog and lines of JSON. Made from settings by the server. It binds, and
# accepts nothing.

require "gyre/net"
require "gyre/net/values"

module Gyre
  module Log
    # An address, what is spoken there, and with TLS or without.
    class Input
      KINDS = %w[syslog json].freeze
      PORTS = { nil => 6766, syslog: 514, json: 6767 }.freeze
      CONNECTED = %i[tcp unix].freeze
      FRAMINGS = %w[auto octet_counting lines].freeze

      # @return [Symbol, nil] :syslog, :json; nil on the main port, where the first frame decides
      attr_reader :kind
      # @return [Gyre::Endpoint] what was asked for
      attr_reader :endpoint
      # @return [Symbol] for :syslog
      attr_reader :framing

      class << self
        # @param bind [String, Integer, Gyre::Endpoint, Array] the main port
        # @param inputs [Array<Hash>] type: "syslog" or "json"; bind: an address or several; tls:
        #   true, settings of its own, or nil; framing: for syslog "auto", "octet_counting" or
        #   "lines"
        # @param tls [Hash, nil] for the main port and for each input with `tls: true`:
        #   certificate:, key:, ca:, verify:
        # @return [Array<Input>]
        # @raise [ArgumentError]
        def all(bind, inputs, tls)
          main = addresses(bind).map { |address| new(nil, address, tls: tls) }
          main + inputs.flat_map do |input|
            options = { tls: own_tls(input, tls), framing: input[:framing] || "auto" }
            addresses(input.fetch(:bind)).map { |address| new(input.fetch(:type), address, **options) }
          end
        end

        # @param input [Hash]
        # @param tls [Hash, nil] what `tls: true` stands for
        # @return [Hash, nil]
        # @raise [ArgumentError]
        def own_tls(input, tls)
          return input[:tls] || nil unless input[:tls] == true

          tls || raise(ArgumentError, "tls: true needs tls: with certificate and key, at the top")
        end

        # @return [Endpoint]
        # @raise [ArgumentError]
        def endpoint(kind, address, tls: nil)
          transports = kind ? Endpoint::FORMS.keys : CONNECTED
          endpoint = Endpoint.parse(address, host: "127.0.0.1", port: PORTS.fetch(kind), transports: transports)
          raise ArgumentError, "there is no TLS for datagrams (#{endpoint})" if tls && endpoint.datagram?

          endpoint
        end

        private

        def addresses(given) = (given.is_a?(Array) ? given : [given]).uniq
      end

      # @param kind [Symbol, String, nil] of KINDS; nil: the main port
      # @param address [String, Integer, Gyre::Endpoint]
      # @param tls [Hash, nil]
      # @param framing [Symbol, String] of FRAMINGS
      # @raise [ArgumentError]
      def initialize(kind, address, tls: nil, framing: :auto)
        @kind = kind && Values.check(KINDS, kind, name: "type").to_sym
        @framing = Values.check(FRAMINGS, framing, name: "framing").to_sym
        @endpoint = Input.endpoint(@kind, address, tls: tls)
        @context = TLS.server(**tls) if tls
      end

      # @return [Array<Gyre::Listener>]
      # @raise [SystemCallError, SocketError] the message names the address
      def bind = @endpoint.bind

      # @param socket [Socket] connected
      # @return [Transport] before its handshake
      def transport(socket)
        transport = Transport.new(socket, "the client")
        transport.begin_tls(@context) if @context
        transport
      end

      # @return [Boolean]
      def tls? = !@context.nil?

      # @return [String] what it is, for messages and for a restart
      def to_s
        [@kind, ("tls" if tls?), @endpoint].compact.join(" ")
      end
    end
  end
end
