# frozen_string_literal: true

# What the log server listens for, and where: its main port, for Analogger's clients and ours, and
# further inputs for syslog and lines of JSON. Made from settings by the server. It binds, and
# accepts nothing.

require "gyre/net"

module Gyre
  module Log
    # An address, what is spoken there, and with TLS or without.
    class Input
      KINDS = %i[syslog json].freeze
      PORTS = { nil => 6766, syslog: 514, json: 6767 }.freeze
      CONNECTED = %i[tcp unix].freeze
      FRAMINGS = %i[auto octet_counting lines].freeze

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
            kind = input.fetch(:type).to_sym
            own_tls = input[:tls] == true ? tls || raise(ArgumentError, "an input has tls: true, and there are no settings for it") : input[:tls]
            addresses(input.fetch(:bind)).map { |address| new(kind, address, tls: own_tls || nil, framing: (input[:framing] || :auto).to_sym) }
          end
        end

        private

        def addresses(given) = (given.is_a?(Array) ? given : [given]).uniq
      end

      # @param kind [Symbol, nil]
      # @param address [String, Integer, Gyre::Endpoint]
      # @param tls [Hash, nil]
      # @param framing [Symbol]
      # @raise [ArgumentError]
      def initialize(kind, address, tls: nil, framing: :auto)
        raise ArgumentError, "an input is of type syslog or json, not #{kind}" unless kind.nil? || KINDS.include?(kind)
        raise ArgumentError, "framing is auto, octet_counting or lines, not #{framing}" unless FRAMINGS.include?(framing)

        @kind = kind
        @framing = framing
        transports = kind ? Endpoint::FORMS.keys : CONNECTED
        @endpoint = Endpoint.parse(address, host: "127.0.0.1", port: PORTS.fetch(kind), transports: transports)
        raise ArgumentError, "#{@endpoint}: there is no TLS for datagrams here" if tls && @endpoint.datagram?

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
