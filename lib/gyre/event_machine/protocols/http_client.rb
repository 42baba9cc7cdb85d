# frozen_string_literal: true

# HttpClient2 and HttpClient: callbacks around Gyre::HTTP::Client, for old programs.
require "gyre/event_machine/deferrable"
require "gyre/http/client"

module Gyre
  module EventMachine
    module Protocols
      # Sends requests to one server, one after another.
      class HttpClient2
        # A request and its response.
        class Request
          include Deferrable

          # `headers` has Arrays of values by lower-case name. `header_lines` has the status line
          # and "name: value" lines. `internal_error` is an exception.
          attr_reader :version, :status, :headers, :header_lines, :content, :internal_error

          # @api private
          def settle
            response = yield
            @version = response.protocol.delete_prefix("HTTP/")
            @status = response.status
            @headers = response.headers.transform_values { |value| Array(value) }
            fields = @headers.flat_map { |name, values| values.map { |value| "#{name}: #{value}" } }
            @header_lines = ["HTTP/#{@version} #{@status}", *fields]
            @content = response.body
          rescue HTTP::Client::Error => error
            @internal_error = error
            self.fail(self)
          else
            succeed(self)
          end
        end

        # @param target [Array] a host and a port, or a Hash: `:host`, `:port`, `:ssl`
        # @return [HttpClient2]
        # @raise [ArgumentError] the port is invalid
        def self.connect(*target) = new(target.first.is_a?(Hash) ? target.first : { host: target[0], port: target[1] })

        # @api private
        def initialize(args)
          @args = args
          port = Integer(args[:port] || (args[:ssl] ? 443 : 80))
          @client = HTTP::Client.new("http#{"s" if args[:ssl]}://#{args[:host]}:#{port}", proxy: nil, redirects_limit: 0, retries_limit: 0)
          @turn = Thread::Mutex.new
        end

        # @param args [String, Hash] the target, or `:uri`, `:query_string`, `:cookie`, …
        # @return [Request]
        def get(args) = request(args, :get)

        # @param args [String, Hash] see {#get}; `:content` and `:contenttype`, too
        # @return [Request]
        def post(args) = request(args, :post)

        # @param args [String, Hash] see {#get}
        # @param verb [Symbol]
        # @return [Request]
        def request(args, verb = :get, request = Request.new)
          args = @args.merge(args.is_a?(Hash) ? args : { uri: args })
          EventMachine.next_tick do
            request.settle { @turn.synchronize { @client.request(verb, target(args), headers: fields(args), body: args[:content]&.to_s) } }
          end
          request
        end

        # Closes the connection to the server.
        def close_connection = @client.close

        private

        def target(args)
          query = args[:query_string].to_s
          query = "?#{query}" unless query.empty? || query.start_with?("?")
          "#{args[:request] || args[:uri] || args[:url] || "/"}#{query}"
        end

        def fields(args)
          credentials = args[:basic_auth]&.values_at(:username, :password)
          authorization = credentials ? "Basic #{[credentials.join(":")].pack("m0")}" : args[:authorization]
          type = args[:contenttype] || args[:content_type] || "application/octet-stream" if args[:content]
          { "host" => args[:host_header], "content-type" => type, "cookie" => args[:cookie], "authorization" => authorization }.compact
            .merge(args[:custom_headers].to_h)
        end
      end

      # One request on its own connection.
      class HttpClient < HttpClient2::Request
        # @param args [Hash] `:host`, `:port`, `:verb`, `:request` (the path), `:content`, `:ssl`, …
        # @return [Deferrable] gets `{status:, headers:, content:}`, or fails with `{status: 0}`
        def self.request(args = {})
          http = HttpClient2.connect({ port: 80 }.merge(args))
          http.request({}, args[:verb] || args[:method] || :get, new(http))
        end

        # @api private
        def initialize(http)
          super()
          @http = http
        end

        # See {HttpClient2#close_connection}.
        def close_connection = @http.close_connection

        # See {Deferrable#set_deferred_status}.
        def set_deferred_status(status, *)
          close_connection
          super(status, status == :succeeded ? { status: @status, headers: header_lines, content: content } : { status: 0 })
        end
      end
    end
  end
end
