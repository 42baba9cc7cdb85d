# frozen_string_literal: true

# HttpClient: one request on one connection, by HttpClient2.
require "gyre/event_machine/protocols/http_client2"

module Gyre
  module EventMachine
    module Protocols
      # Kept for old programs. Gyre's HTTP client and em-http-request do more.
      class HttpClient < HttpClient2
        include Deferrable

        # @param args [Hash] `:host`, `:port`, `:verb`, `:request` (the path), `:content`, `:ssl`, …
        # @return [Deferrable] gets `{status:, headers:, content:}`, or fails with `{status: 0}`
        def self.request(args = {})
          connect({ port: 80 }.merge(args)).tap { |client| client.__send__(:ask, args[:verb] || args[:method] || :get) }
        end

        private

        def ask(verb)
          request = request({}, verb)
          request.errback { self.fail({ status: 0 }) }
          request.callback do |response|
            succeed({ status: response.status, headers: response.header_lines, content: response.content })
            close_connection
          end
        end
      end
    end
  end
end
