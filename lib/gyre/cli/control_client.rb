# frozen_string_literal: true

# Sends requests to a server's control socket or --metrics address, for `gyre ctl` and `gyre top`.
# Rejects slow, long and foreign responses.

require "json"
require "gyre/net/endpoint"

module Gyre
  module CLI
    class ControlClient
      # The peer sent no valid response in time.
      class NoAnswer < StandardError; end

      STATUS_TIMEOUT_S = 5
      BYTES_LIMIT = 16 << 20
      PROFILE_BYTES_LIMIT = 128 << 20

      # `address`: see {Gyre::Endpoint.parse}; an HTTP URL's path is dropped. Raises ArgumentError.
      def initialize(address)
        @endpoint = Endpoint.parse(address.sub(%r{\A(https?://[^/]*)/.*\z}, "\\1"), host: "127.0.0.1")
      end

      # Returns /status of Gyre::Web::ControlApp. Raises SystemCallError or NoAnswer.
      def status
        head, body = request("GET", "/status", STATUS_TIMEOUT_S)
        raise NoAnswer, "it responds with #{head.lines.first.to_s.strip[0, 80].inspect}, not with a status" unless head.start_with?("HTTP/1.1 200 ")

        found = parse(body)
        found["workers"].is_a?(Array) ? found : raise(NoAnswer, "its response is not a status")
      end

      # Sends a command and waits for its end. Returns nil, or the reason of a failure; false if the
      # connection ended without a response.
      def command(name)
        head, body = request("POST", "/#{name}", nil)
        return false if head.empty?

        parse(body)["error"]
      rescue Errno::ECONNRESET, Errno::EPIPE
        false
      end

      # Returns what Gyre::Web::ControlProfile responds.
      def profile(seconds)
        head, body = request("POST", "/profile?seconds=#{seconds}", nil, PROFILE_BYTES_LIMIT)
        raise NoAnswer, "the server has ended, or was restarted" if head.empty?
        raise NoAnswer, "the server takes no profiles: it runs an older Gyre" if head.match?(%r{\AHTTP/1.1 404 })

        parse(body)
      end

      def to_s = @endpoint.to_s

      private

      def request(verb, path, timeout_s, bytes_limit = BYTES_LIMIT)
        deadline = timeout_s && (Clock.now + timeout_s)
        socket = @endpoint.connect(timeout_s)
        socket.write("#{verb} #{path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        response = +""
        while (piece = read(socket, deadline))
          response << piece
          raise NoAnswer, "its response is too long" if response.bytesize > bytes_limit
        end
        response.force_encoding(Encoding::UTF_8).split("\r\n\r\n", 2).then { |head, body| [head.to_s, body.to_s] }
      ensure
        socket&.close
      end

      def read(socket, deadline)
        left_s = deadline && [deadline - Clock.now, 0].max
        raise NoAnswer, "it has not answered within #{STATUS_TIMEOUT_S} s" unless socket.wait_readable(left_s)

        socket.readpartial(65_536)
      rescue EOFError
        nil
      end

      def parse(body)
        found = JSON.parse(body)
        found.is_a?(Hash) ? found : raise(NoAnswer, "its response is not a status")
      rescue JSON::ParserError
        raise NoAnswer, "its response is not a status"
      end
    end
  end
end
