# frozen_string_literal: true

# An HTTP/1.1 connection for one request at a time. It is also the request's exchange (status,
# headers, read, cancel). Made by Origin. The extension sends and parses
# (ext/gyre/http/h1/client.c, which draws the exchange's states).

require "gyre/http/client/errors"

Gyre::Loop.define_native(:http_client)

module Gyre
  module HTTP
    class Client
      Loop.require_native("Gyre::HTTP::Client")

      class H1Connection
        # Returns the exchange with the final head. Yields status and headers of interim responses.
        def request(method, target, headers, body, until_s, &interim)
          whole = body.nil? || body.is_a?(String)
          goes_on = self.begin(method, target, headers, whole ? body : true, until_s, interim)
          stream(body, headers["content-length"]) if goes_on && !whole
          raise Gyre::ProtocolError, "#{transport.peer} switched protocols unasked" if receive_head == 101 && !headers.key?("upgrade")

          exchange = self
        rescue EOFError, SystemCallError, TLS::Error => error
          raise answered? ? error : Unanswered.new(error, true)
        ensure
          close unless exchange
        end

        def protocol = "HTTP/1.1"
        def shared? = false
        def closed? = transport.closed?

        def close = transport.abandon
        def cancel = over? || close

        private

        # Sends chunks if `length` is nil. Raises if the body is longer than `length`: the server
        # would read the rest as another request. Stops if the server responds early; then the
        # connection is not used again.
        def stream(body, length)
          left = length ? Integer(length, 10) : 0
          if length && (file = body.file if body.respond_to?(:file))
            left = send_file(*file.first(2), left) or return
          else
            body.each do |piece|
              left -= piece.bytesize if length
              raise ArgumentError, "the body is longer than its content-length" if left.negative?
              return unless send_piece(piece, !length)
            end
          end
          raise ArgumentError, "the body is shorter than its content-length" if left.positive?

          send_piece(nil, !length)
        end
      end
    end
  end
end
