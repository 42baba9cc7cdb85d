# frozen_string_literal: true

# A name server over HTTPS (RFC 8484), by the HTTP client. Made by Gyre::DNS::Upstream.

require "gyre/clock"
require "gyre/http/client"

module Gyre
  module DNS
    class UpstreamHTTPS
      TYPE = "application/dns-message"
      HEADERS = { "content-type" => TYPE, "accept" => TYPE }.freeze
      private_constant :TYPE, :HEADERS

      def initialize(server, tls)
        @url = "https://#{server.authority}#{server.path}"
        @client = HTTP::Client.new(tls: tls, body_bytes_limit: Message::BYTES_LIMIT)
      end

      # Returns {query => packet}, as {UpstreamStream#exchange}.
      def exchange(queries, until_s)
        return queries.to_h { |query| [query, post(query, until_s)] } unless queries.size > 1 && Task.current?

        Gyre.run { |task| queries.to_h { |query| [query, task.async { post(query, until_s) }] }.transform_values(&:wait) }
      end

      def close = @client.close

      private

      def post(query, until_s)
        response = @client.post(@url, query.bytes, headers: HEADERS, timeout_s: [until_s - Clock.now, 0.001].max)
        return response.body.b if response.status == 200 && response.headers["content-type"] == TYPE

        raise IOError, "#{@url}: status #{response.status}, #{response.headers["content-type"] || "no content type"}"
      rescue HTTP::Client::Error => error
        raise IOError, error.message
      end
    end
  end
end
