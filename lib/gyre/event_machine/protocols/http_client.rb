# frozen_string_literal: true

# HttpClient: one request on one connection.
require "gyre/event_machine/protocols/http_responses"

module Gyre
  module EventMachine
    module Protocols
      # Kept for old programs. Gyre's HTTP client and em-http-request do more.
      class HttpClient < Connection
        include Deferrable
        include HttpResponses

        # Bytes of a request's body.
        MaxPostContentLength = 20 * 1024 * 1024

        # @param args [Hash] `:host`, `:port`, `:verb`, `:request` (the path), `:content`, `:ssl`, …
        # @return [Deferrable] gets `{status:, headers:, content:}`, or fails with `{status: 0}`
        def self.request(args = {})
          args = { port: 80 }.merge(args)
          EventMachine.connect(args[:host], args[:port], self) { |client| client.instance_variable_set(:@args, args) }
        end

        # Sends the request.
        def connection_completed
          start_tls if @args[:ssl]
          send_data(HttpClient.head(@args) << body)
        end

        # @param args [Hash] a request's
        # @return [String] its head
        def self.head(args)
          verb = (args[:verb] || args[:method] || :get).to_s.upcase
          query = args[:query_string].to_s
          target = args[:request] || args[:uri] || args[:url] || "/"
          port = Integer(args[:port])
          target += "?" unless query.empty? || query.start_with?("?")
          host = args[:host_header] || "#{args[:host]}#{":#{port}" unless port == (args[:ssl] ? 443 : 80)}"
          lines = ["#{verb} #{target}#{query} HTTP/#{args[:version] || "1.1"}", "Host: #{host}", "User-agent: Ruby EventMachine", *extra_lines(args)]
          raise ArgumentError, "a line break in the request: #{lines.grep(/[\r\n]/).first.inspect}" if lines.any? { |line| line.match?(/[\r\n]/) }

          lines.join("\r\n") << "\r\n\r\n"
        end

        # Returns header lines for a request's arguments.
        def self.extra_lines(args)
          content = args[:content]
          credentials = args[:basic_auth]
          type = args[:contenttype] || args[:content_type] || "application/octet-stream"
          authorization = credentials ? "Basic #{["#{credentials[:username]}:#{credentials[:password]}"].pack("m0")}" : args[:authorization]
          { "Content-length" => content&.to_s&.bytesize, "Content-type" => content && type, "Cookie" => args[:cookie],
            "Authorization" => authorization, **args.fetch(:custom_headers, nil).to_h }.compact.map { |name, value| "#{name}: #{value}" }
        end
        private_class_method :extra_lines

        # Fails if the response is incomplete.
        def unbind
          self.fail({ status: 0 }) unless @over || super
        end

        private

        def body = @args[:content].to_s

        def bodiless? = (@args[:verb] || @args[:method]).to_s.casecmp?("head")

        def receive_response(response)
          @over = true
          succeed({ status: response.status, headers: response.lines, content: response.content })
          close_connection
        end
      end
    end
  end
end
