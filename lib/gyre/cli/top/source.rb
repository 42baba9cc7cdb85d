# frozen_string_literal: true

# Asks a server for its /status over TCP or a Unix socket. Gyre::CLI::Top has one. A server that
# answers slowly or with anything else is an error, in bounded time and memory.

require "json"
require "gyre/clock"
require "gyre/net/endpoint"

module Gyre
  module CLI
    class Top < Command
      # One server.
      class Source
        # What came is no status.
        class NoStatus < StandardError; end

        TIMEOUT_S = 5
        BYTES_LIMIT = 16 << 20
        private_constant :TIMEOUT_S, :BYTES_LIMIT

        # @param address [String] as {Gyre::Endpoint.parse} reads it; a path behind the port is
        #   dropped
        # @raise [ArgumentError]
        def initialize(address)
          @endpoint = Endpoint.parse(address.sub(%r{\A(https?://[^/]*)/.*\z}, "\\1"), host: "127.0.0.1")
        end

        # @return [Hash] as Gyre::Web::Control has it
        # @raise [SystemCallError, NoStatus]
        def status
          head, _, body = ask.partition("\r\n\r\n")
          raise NoStatus, "it responds with #{head.lines.first.to_s.strip[0, 80].inspect}, not with a status" unless head.start_with?("HTTP/1.1 200 ")

          found = JSON.parse(body)
          raise NoStatus, "its response is no status" unless found.is_a?(Hash) && found["workers"].is_a?(Array)

          found
        rescue JSON::ParserError
          raise NoStatus, "its response is no status"
        end

        # @return [String] the address
        def to_s = @endpoint.to_s

        private

        def ask
          deadline = Clock.now + TIMEOUT_S
          socket = @endpoint.connect(TIMEOUT_S)
          socket.write("GET /status HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
          response = +""
          while (piece = read(socket, deadline))
            response << piece
            raise NoStatus, "its response is too long" if response.bytesize > BYTES_LIMIT
          end
          response.force_encoding(Encoding::UTF_8)
        ensure
          socket&.close
        end

        def read(socket, deadline)
          left = deadline - Clock.now
          raise NoStatus, "it has not answered within #{TIMEOUT_S} s" unless left.positive? && socket.wait_readable(left)

          socket.readpartial(65_536)
        rescue EOFError
          nil
        end
      end
    end
  end
end
