# frozen_string_literal: true

# A connection of HTTP/2, shared by many fibers' requests; the extension moves frames
# (ext/gyre/http/h2/client.c, client_call.c). Made by Pool. Never retries.

require "gyre/http/client/errors"
require "gyre/loop"
require "gyre/net"

module Gyre
  module HTTP
    class Client
      Loop.require_native("Gyre::HTTP::Client")

      class H2Connection
        INTERIM_LIMIT = 16
        private_constant :INTERIM_LIMIT

        # Returns the exchange with the final response's head; yields interim ones.
        def request(method, target, headers, body, until_s, &interim)
          whole = body.nil? || body.is_a?(String)
          exchange = open(method, target, headers, whole ? body : true, until_s) || refuse
          stream(exchange, body) unless whole
          answered = receive_head(exchange, interim)
        rescue SystemCallError, IOError, TLS::Error, Gyre::ProtocolError => error
          processed = exchange ? exchange.unanswered : false
          raise processed.nil? ? error : Unanswered.new(error, processed)
        ensure
          exchange&.cancel unless answered
        end

        def protocol = "HTTP/2"
        def ready? = capacity.positive?
        alias rest ready?

        def close
          return if transport.closed?

          end_streams
          transport.abandon
          nil
        end

        private

        def stream(exchange, body)
          body.each { |piece| exchange.write(piece) || break }
          exchange.finish
        end

        def receive_head(exchange, interim)
          count = 0
          while exchange.receive_head < 200
            raise Gyre::ProtocolError, "#{transport.peer} sent more than #{INTERIM_LIMIT} interim responses" if (count += 1) > INTERIM_LIMIT

            interim&.call(exchange.status, exchange.headers)
          end
          exchange
        end
      end
    end
  end
end
