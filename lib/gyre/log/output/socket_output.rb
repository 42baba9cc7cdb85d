# frozen_string_literal: true

# Writes plain lines to another program over TCP or a Unix socket. Made by Output.open. On Linux, a
# batch is complete when the peer's kernel has acknowledged all bytes. After a lost connection, the
# whole batch is sent again, so lines may arrive twice. Never syncs.

require "gyre/log/output/defaults"
require "gyre/net/reconnecting_socket"

module Gyre
  module Log
    module Output
      class SocketOutput
        include Defaults

        NAMES = %w[socket].freeze
        SCHEMES = %w[tcp unix].freeze
        EXAMPLES = "tcp://host:port, unix:///path"
        OPTIONS_TEXT = "for a socket the port"
        # SIOCOUTQ of linux/sockios.h returns the unacknowledged bytes in the send queue.
        SIOCOUTQ = 0x5411
        # Seconds of the first and the longest pause between two checks of the queue.
        LOOKS_S = (0.0005..0.05).freeze
        # Maximum pieces of 4 KB from the peer that each check discards.
        READS = 16

        class << self
          # Takes an address, a path, or a host with the port in `options` (as in Analogger).
          def parse(target, options = nil)
            address = address(target, Array(options).first.to_s)
            endpoint = Endpoint.parse(address, host: "*", port: 0)
            return endpoint if endpoint.path || (endpoint.host != "*" && endpoint.port.positive?)

            raise ArgumentError, "#{address.inspect} is not an address to connect to: write tcp://host:port or unix:///path"
          end

          def check(target, options, faults)
            super
            faults.at("options") { parse(target, options) }
          end

          def from(target, settings, **options) = new(parse(target, settings[:options]), **options)

          private

          def address(target, port)
            return target if target.include?("://")
            return "unix://#{target}" if target.start_with?("/")
            return "tcp://#{target}" if target.match?(/:\d+\z/) && port.empty?
            return "tcp://#{target}:#{port}" if port.match?(/\A\d+\z/)

            raise ArgumentError, "a socket needs tcp://host:port, unix:///path, or a host with options: [port]"
          end
        end

        def initialize(endpoint, **options)
          super(endpoint.to_s, **options)
          @socket = ReconnectingSocket.new(@retries, endpoint)
        end

        def write(data, _clients = nil)
          @socket.use("send to it") do |transport|
            raise Errno::ECONNRESET if ended?(transport)

            @socket.write(data)
            await_empty_queue(transport)
          end
        end

        def reopen = @socket.close

        def close = @socket.close

        private

        # True if the peer has closed. Discards up to READS pieces of received bytes.
        def ended?(transport)
          READS.times do
            bytes = transport.read_available(4096)
            return bytes.nil? unless bytes.is_a?(String)
          end
          false
        end

        def await_empty_queue(transport)
          backoff = Backoff.new(*LOOKS_S.minmax)
          while queued(transport.to_io).positive?
            raise Errno::ECONNRESET if ended?(transport)

            sleep(backoff.failed)
          end
        end

        def queued(io)
          return 0 unless RUBY_PLATFORM.include?("linux")

          count = [0].pack("i")
          io.ioctl(SIOCOUTQ, count)
          count.unpack1("i")
        end
      end
    end
  end
end
