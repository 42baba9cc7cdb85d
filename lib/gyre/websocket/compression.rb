# frozen_string_literal: true

# Negotiates permessage-deflate (RFC 7692, section 7.1) for Gyre::WebSocket.open. C compresses.

require "gyre/loop"

module Gyre
  class WebSocket
    # An accepted offer.
    class Compression
      NAME = "permessage-deflate"
      MOST_BITS = 15
      # Accepted values of an offer's parameters. (zlib compresses with a window of 9 bits or more.)
      VALUES = Ractor.make_shareable({ "server_no_context_takeover" => [nil], "client_no_context_takeover" => [nil],
                                       "server_max_window_bits" => [*"9".."15"], "client_max_window_bits" => [nil, *"8".."15"] })
      # Window bits if the window is kept between messages. 12 bits are 4 KB of earlier messages and
      # take 38 KB of memory; 15 bits would take 268 KB.
      KEPT_BITS = 12
      private_constant :NAME, :MOST_BITS, :VALUES, :KEPT_BITS

      class << self
        # True if this build can compress.
        def available? = Loop.native? && WebSocket.const_defined?(:COMPRESSES, false)

        # Accepts the first valid offer, or returns nil.
        def negotiate(header, compress)
          raise ArgumentError, "compress is true, false or :takeover, not #{compress.inspect}" unless [true, false, :takeover].include?(compress)
          return unless compress && header && available?

          offer = header.split(",").lazy.map { |text| parse(text) }.find(&:itself)
          offer && new(offer, compress == :takeover)
        end

        private

        # Returns an offer's parameters; nil if the offer is malformed or not acceptable.
        def parse(text)
          name, *parameters = text.split(";", -1).map { |part| part.split("=", 2).map { |word| word.strip.sub(/\A"(.*)"\z/, '\1') } }
          offer = parameters.to_h { |parameter| [parameter.first, parameter[1]] }
          offer if name == [NAME] && offer.size == parameters.size && offer.all? { |key, value| VALUES[key]&.include?(value) }
        end
      end

      # Window bits and whether the window is kept: two values for messages to the client, then two
      # for messages from the client. Read by C.
      attr_reader :agreed
      attr_reader :response

      def initialize(offer, takeover)
        sent_keeps = takeover && !offer.key?("server_no_context_takeover")
        received_keeps = takeover && !offer.key?("client_no_context_takeover")
        sent_bits = bits(offer["server_max_window_bits"], sent_keeps)
        limits_client = received_keeps && offer.key?("client_max_window_bits")
        received_bits = bits(offer["client_max_window_bits"], limits_client)
        @agreed = [sent_bits, sent_keeps, received_bits, received_keeps].freeze
        @response = [NAME, *("server_no_context_takeover" unless sent_keeps), *("client_no_context_takeover" unless received_keeps),
                     *("server_max_window_bits=#{sent_bits}" if sent_keeps || offer.key?("server_max_window_bits")),
                     *("client_max_window_bits=#{received_bits}" if limits_client)].join("; ")
      end

      private

      def bits(offered, kept) = [(offered || MOST_BITS).to_i, kept ? KEPT_BITS : MOST_BITS].min
    end
  end
end
