# frozen_string_literal: true

# HttpClient2: requests one after another on a connection, each a Deferrable.
require "gyre/event_machine/protocols/http_responses"

module Gyre
  module EventMachine
    module Protocols
      # Kept for old programs. Gyre's HTTP client and em-http-request do more.
      class HttpClient2 < Connection
        include HttpResponses

        # A request and its response.
        class Request
          include Deferrable

          attr_reader :version, :status, :header_lines, :headers, :content, :internal_error

          # @api private
          attr_reader :args

          def initialize(args)
            @args = args
          end

          # @api private
          def answer(response)
            @version, @status, @header_lines, @headers, @content = response.to_a
            succeed(self)
          end

          # @api private
          def lose(error)
            @internal_error = error
            self.fail(self)
          end
        end

        # @param target [Array] a host and a port, or a Hash: `:host`, `:port`, `:ssl`, `:version`
        # @return [HttpClient2]
        # @raise [ArgumentError] the port is invalid
        def self.connect(*target)
          args = target.first.is_a?(Hash) ? target.first.dup : { host: target[0], port: target[1] }
          args[:port] = Integer(args[:port] || (args[:ssl] ? 443 : 80))
          EventMachine.connect(args[:host], args[:port], self) { |client| client.instance_variable_set(:@args, args) }
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
        def request(args, verb = :get)
          args = { uri: args } if args.is_a?(String)
          request = Request.new(@args.merge({ verb: verb }, args))
          if @unbound
            request.lose(:connection_lost)
          else
            requests << request
            send_request(request) if @connected
          end
          request
        end

        # Sends waiting requests.
        def connection_completed
          @connected = true
          start_tls if @args[:ssl]
          requests.each { |request| send_request(request) }
        end

        # Requests without a response fail.
        def unbind
          @unbound = true
          super
          requests.shift.lose(:connection_lost) until requests.empty?
        end

        private

        def requests = @requests ||= []

        def send_request(request) = send_data(head(request.args) << request.args[:content].to_s)

        def head(args)
          query = args[:query_string].to_s
          target = args[:request] || args[:uri] || args[:url] || "/"
          port = args[:port]
          target += "?" unless query.empty? || query.start_with?("?")
          host = args[:host_header] || "#{args[:host]}#{":#{port}" unless port == (args[:ssl] ? 443 : 80)}"
          lines = ["#{args[:verb].to_s.upcase} #{target}#{query} HTTP/#{args[:version] || "1.1"}", "Host: #{host}", "User-agent: Ruby EventMachine",
                   *fields(args)]
          raise ArgumentError, "a line break in the request: #{lines.grep(/[\r\n]/).first.inspect}" if lines.any? { |line| line.match?(/[\r\n]/) }

          lines.join("\r\n") << "\r\n\r\n"
        end

        def fields(args)
          content = args[:content]
          credentials = args[:basic_auth]
          type = args[:contenttype] || args[:content_type] || "application/octet-stream"
          authorization = credentials ? "Basic #{["#{credentials[:username]}:#{credentials[:password]}"].pack("m0")}" : args[:authorization]
          { "Content-length" => content&.to_s&.bytesize, "Content-type" => content && type, "Cookie" => args[:cookie],
            "Authorization" => authorization, **args.fetch(:custom_headers, nil).to_h }.compact.map { |name, value| "#{name}: #{value}" }
        end

        def bodiless? = requests.first&.args&.fetch(:verb).to_s.casecmp?("head")

        def receive_response(response) = requests.shift&.answer(response)
      end
    end
  end
end
