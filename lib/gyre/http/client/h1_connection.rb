# frozen_string_literal: true

# An HTTP/1.1 connection for one request at a time. It is also the request's exchange (status,
# headers, read, cancel). Made by Origin. The extension sends and parses
# (ext/gyre/http/h1/client.c).

require "gyre/http/client/errors"
require "gyre/loop"
require "gyre/net"

module Gyre
  module HTTP
    class Client
      Loop.require_native("Gyre::HTTP::Client")

      class H1Connection
        INTERIM_LIMIT = 16
        # Seconds to wait for a 100: the server may ignore Expect (RFC 9110, section 10.1.1).
        CONTINUE_TIMEOUT_S = 1
        private_constant :INTERIM_LIMIT, :CONTINUE_TIMEOUT_S

        # Receives heads until the status is final or `until_status`. Used for HTTP/1 and HTTP/2.
        def self.pass_interim(exchange, peer, interim, until_status = nil)
          count = 0
          until exchange.status >= 200 || exchange.status == until_status
            raise Gyre::ProtocolError, "#{peer} sent more than #{INTERIM_LIMIT} interim responses" if (count += 1) > INTERIM_LIMIT

            interim&.call(exchange.status, exchange.headers)
            exchange.receive_head
          end
        end

        # Returns the exchange with the final head. Yields status and headers of interim responses.
        def request(method, target, headers, body, until_s, &interim)
          if body.nil? || body.is_a?(String)
            send_request(method, target, headers, body, until_s)
          elsif send_request(method, target, headers, true, until_s) && continue?(headers, interim)
            stream(body, headers["content-length"])
          end
          finish(headers, interim) if status < 200 && receive_head < 200

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

        def finish(headers, interim)
          H1Connection.pass_interim(self, transport.peer, interim, 101)
          raise Gyre::ProtocolError, "#{transport.peer} switched protocols unasked" if status == 101 && !headers.key?("upgrade")
        end

        # Waits for a 100 if expected. Returns false if the final response came instead.
        def continue?(headers, interim)
          return true unless headers["expect"] && transport.to_io.wait_readable(CONTINUE_TIMEOUT_S)

          H1Connection.pass_interim(self, transport.peer, interim, 100) if receive_head < 200
          status == 100
        end

        # Sends chunks if `length` is nil. Raises if the body is longer than `length`: the server
        # would read the rest as another request. Stops if the server responds early; then the
        # connection is not used again.
        def stream(body, length)
          left = length ? Integer(length, 10) : 0
          if length && (file = body.file if body.respond_to?(:file))
            left -= send_file(*file.first(2), left)
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

        # Uses sendfile(2). Ignores a broken connection: the server may have responded early.
        def send_file(io, offset, length)
          transport.write_file(io, offset, length)
        rescue Errno::EPIPE, Errno::ECONNRESET
          length
        end
      end
    end
  end
end
