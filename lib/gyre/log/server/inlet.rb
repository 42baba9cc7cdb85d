# frozen_string_literal: true

# An address of the log server and its protocol: the main port, or an input for syslog or JSON
# lines. Binds sockets, but accepts no connections.

require "gyre/net"
require "gyre/net/tls_settings"

module Gyre
  module Log
    TLS_SETTINGS = Gyre::Settings.new({ nil => TLS::ROWS }, what: "key", foreign: TLS::FOREIGN_WORDS, needs: %i[cert key])

    class Inlet
      PORTS = { nil => 6766, syslog: 514, json: 6767 }.freeze
      CONNECTED = %i[tcp unix].freeze

      attr_reader :kind # :syslog, :json, or nil on the main port, where the first frame decides
      attr_reader :endpoint
      attr_reader :framing

      class << self
        # `tls` applies to the main port and to each input with `tls: true`.
        def all(bind, inputs, tls)
          main = addresses(bind).map { |address| new(nil, address, tls: tls) }
          main + inputs.flat_map do |input|
            input = self::SETTINGS.complete(input)
            options = { tls: own_tls(input, tls), framing: input[:framing].to_sym }
            addresses(input[:bind]).map { |address| new(input[:type].to_sym, address, **options) }
          end
        end

        def own_tls(input, tls)
          return unless input[:tls]

          tls || raise(ArgumentError, "tls: true needs tls: with cert and key, at the top")
        end

        def endpoint(kind, address, tls: nil)
          transports = kind ? Endpoint::FORMS.keys : CONNECTED
          endpoint = Endpoint.parse(address, host: "127.0.0.1", port: PORTS.fetch(kind), transports: transports)
          raise ArgumentError, "datagrams cannot have TLS (#{endpoint})" if tls && endpoint.datagram?

          endpoint
        end

        private

        def addresses(given) = (given.is_a?(Array) ? given : [given]).uniq
      end

      # `kind` is nil for the main port.
      def initialize(kind, address, tls: nil, framing: :auto)
        @kind = kind
        @framing = framing
        @endpoint = Inlet.endpoint(@kind, address, tls: tls)
        @context = TLS.server(**tls) if tls
      end

      # Errors name the address.
      def bind = @endpoint.bind

      # Takes a former program's socket (Acceptor#to_h).
      def adopt(left)
        Listener.adopt(left.fetch("descriptor"), @endpoint.path ? @endpoint : @endpoint.with(host: left.fetch("host")))
      end

      # Makes a transport. Does not wait for its TLS handshake.
      def transport(socket)
        transport = Transport.new(socket, "the client")
        transport.begin_tls(@context) if @context
        transport
      end

      def tls? = !@context.nil?

      # Returns the inlet's name, by which the process after a restart finds its sockets.
      def to_s = [@kind, ("tls" if tls?), @endpoint].compact.join(" ")
    end

    type = Gyre::Settings::Type
    row = Gyre::Settings.method(:row)
    address = type.new("ADDRESS", "an address") { |value| Endpoint.parse(value, transports: Endpoint::FORMS.keys) && value }
    Inlet::SETTINGS = Gyre::Settings.new({ nil => [
      row[:type, %w[syslog json], "protocol (json: one object per line)"],
      row[:bind, address, "where: tcp://host:port, udp://host:port, unix:///path, unixgram:///path", list: true],
      row[:framing, %w[auto octet_counting lines zero], "how syslog messages end (auto detects all; zero: only by zero bytes)", default: "auto"],
      row[:tls, :flag, "true: with the certificate of tls", default: false]
    ] }, what: "key", needs: %i[type bind]) do |values, faults|
      kind, bind = values.values_at(:type, :bind)
      faults.at("tls") { bind.each { |each| Inlet.endpoint(kind.to_sym, each, tls: values[:tls]) } } if kind && bind
    end
  end
end
