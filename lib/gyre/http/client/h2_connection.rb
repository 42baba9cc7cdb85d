# frozen_string_literal: true

# An HTTP/2 connection, shared by the requests of many fibers. The extension sends and receives
# frames (ext/gyre/http/h2/client.c, client_call.c). Made by Origin. Never retries.

require "gyre/http/client/h1_connection"

module Gyre
  module HTTP
    class Client
      class H2Connection
        # Returns the exchange with the final head. Yields status and headers of interim responses.
        def request(method, target, headers, body, until_s, &interim)
          if body.is_a?(String) && headers.key?("expect")
            headers = { **headers, "content-length" => body.bytesize.to_s }
            body = [body]
          end
          whole = body.nil? || body.is_a?(String)
          exchange = open(method, target, headers, whole ? body : true, until_s, interim) || refuse
          stream(exchange, body, headers.key?("expect")) unless whole
          exchange.receive_head
          answered = exchange
        rescue SystemCallError, IOError, TLS::Error, Gyre::ProtocolError => error
          processed = exchange ? exchange.unanswered : false
          raise processed.nil? ? error : Unanswered.new(error, processed)
        ensure
          exchange&.cancel unless answered
        end

        def protocol = "HTTP/2"
        def ready?(_lately) = capacity.positive? && !rested?
        def rest = capacity.positive?

        def close
          return if transport.closed?

          end_streams
          transport.abandon
          nil
        end

        private

        # A body that ends early gets no end: a reset follows the response.
        def stream(exchange, body, expects)
          exchange.await_continue if expects
          body.each { |piece| exchange.write(piece) or return }
          exchange.finish
        end
      end
    end
  end
end
