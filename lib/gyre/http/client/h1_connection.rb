# frozen_string_literal: true

# A connection of HTTP/1.1, which carries one request at a time; the extension sends and parses
# (ext/gyre/http/h1/client.c). Made by Pool. Is its own exchange: status, headers, read, cancel.

require "gyre/http/client/errors"
require "gyre/loop"
require "gyre/net"

module Gyre
  module HTTP
    class Client
      Loop.require_native("Gyre::HTTP::Client")

      class H1Connection
        INTERIM_LIMIT = 16
        private_constant :INTERIM_LIMIT

        # Returns the exchange with the final response's head; yields interim ones.
        def request(method, target, headers, body, until_s, &interim)
          if body.nil? || body.is_a?(String)
            send_request(method, target, headers, body, until_s)
          else
            send_request(method, target, headers, true, until_s) && stream(body, !headers.key?("content-length"))
          end
          pass_interim(interim) if receive_head < 200
          exchange = self
        rescue EOFError, SystemCallError, TLS::Error => error
          raise answered? ? error : Unanswered.new(error, true)
        ensure
          close unless exchange
        end

        def capacity = ready? ? 1 : 0
        def idle? = over?
        def shared? = false
        def closed? = transport.closed?

        def close
          transport.abandon
        end

        def cancel
          close unless over?
        end

        private

        def stream(body, chunked)
          whole = true
          body.each { |piece| (whole = send_piece(piece, chunked)) || break }
          send_piece(nil, true) if whole && chunked
        end

        def pass_interim(interim)
          INTERIM_LIMIT.times do
            return if status >= 200 || status == 101

            interim&.call(status, headers)
            receive_head
          end
          raise Gyre::ProtocolError, "#{transport.peer} sent more than #{INTERIM_LIMIT} interim responses"
        end
      end
    end
  end
end
