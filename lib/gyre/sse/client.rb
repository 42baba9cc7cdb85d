# frozen_string_literal: true

# A client for server-sent events (WHATWG HTML, section 9.2): reads a response of the HTTP client as
# events, reconnects and continues after the last event. Loaded by `require "gyre/sse/client"`.

require "gyre/http/client"
require "gyre/sse"

module Gyre
  module SSE
    # An event: type (default "message"), data, and the last id so far.
    Event = Struct.new(:type, :data, :id)

    class << self
      # Yields the events of a streamed response, as the answer to a POST.
      #
      #   client.post(url, json: question) { |response| Gyre::SSE.each(response) { |event| puts event.data } }
      # @param response [HTTP::Client::Response]
      # @param event_bytes_limit [Integer] of one event
      # @yieldparam event [Event]
      # @return [HTTP::Client::Response, Enumerator]
      # @raise [HTTP::Client::Error]
      # @raise [ProtocolError] it sends no events, or too long ones
      def each(response, event_bytes_limit: 1 << 20, parser: Parser.new(limit: event_bytes_limit), &block)
        return enum_for(:each, response, event_bytes_limit: event_bytes_limit) unless block

        type = response["content-type"].to_s
        raise ProtocolError, "#{response.url[/[^?]*/]} sends #{type.inspect} instead of events" unless type.match?(%r{\Atext/event-stream\s*(;|\z)}i)

        response.each { |piece| parser.parse(piece, &block) }
      end
    end

    # Parses a stream, which comes in pieces of any size, into events.
    # @api private
    class Parser
      MARK = "\xEF\xBB\xBF".b.freeze
      LINE = /\r\n|\r|\n/n.freeze
      private_constant :MARK, :LINE

      # @return [String, nil] of the last event
      attr_reader :id
      # @return [Float, nil] the server's wish
      attr_reader :retry_s

      def initialize(id = nil, limit: 1 << 20)
        @id = @next_id = id
        @limit = limit
        @bytes = +"".b
        @seen = 0 # first bytes of @bytes that have no line end
        @data = nil
        @begun = @after_cr = false
      end

      # @yieldparam event [Event]
      # @raise [ProtocolError] an event is too long
      def parse(piece)
        @bytes << (@after_cr ? piece.delete_prefix("\n") : piece)
        @after_cr = piece.end_with?("\r")
        begin_stream or return unless @begun
        at = 0
        while (found = @bytes.match(LINE, [at, @seen].max))
          event = take(@bytes.byteslice(at, found.begin(0) - at).force_encoding(Encoding::UTF_8).scrub)
          at = found.end(0)
          yield event if event
        end
        @bytes.slice!(0, at) if at.positive?
        @seen = @bytes.bytesize
        raise ProtocolError, "an event of the stream has more than #{@limit} bytes" if @bytes.bytesize + @data.to_s.bytesize > @limit
      end

      private

      def begin_stream
        return if @bytes.bytesize < MARK.bytesize && MARK.start_with?(@bytes)

        @bytes.delete_prefix!(MARK)
        @begun = true
      end

      def take(line)
        return finish if line.empty?

        name, value = line.split(":", 2)
        value = value.to_s.delete_prefix(" ")
        case name
        when "data" then @data ? @data << "\n" << value : @data = value
        when "event" then @type = value
        when "id" then @next_id = value unless value.include?("\0")
        when "retry" then @retry_s = value.to_i / 1000.0 if value.match?(/\A\d{1,9}\z/)
        end
        nil
      end

      def finish
        @id = @next_id
        event = Event.new(@type.to_s.empty? ? "message" : @type, @data, @id) if @data
        @data = @type = nil
        event
      end
    end

    # A stream of events that survives broken connections.
    #
    #   Gyre::SSE::Client.new("https://example.com/events").each { |event| puts event.data }
    class Client
      AGAIN = [429, 500, 502, 503, 504].freeze
      WAIT_LIMIT_S = 60
      LEAST_S = 0.05 # seconds of pause for each failure in a row, even if the server asks for less
      private_constant :AGAIN, :WAIT_LIMIT_S, :LEAST_S

      # @return [String, nil] sent when it reconnects
      attr_reader :last_event_id

      # @param url [String]
      # @param client [HTTP::Client] whose read_timeout_s ends a silent connection
      # @param headers [Hash{String => String}]
      # @param last_event_id [String, nil] of an earlier stream
      # @param retry_s [Numeric] the first pause; doubles with each failure, up to a minute
      # @param method [String, Symbol] other than GET: is sent once, so {#each} ends with the stream
      # @param event_bytes_limit [Integer] of one event
      # @param body [Hash] body:, json:, form: or multipart: of {HTTP::Client#request}
      def initialize(url, client: HTTP.client, headers: {}, last_event_id: nil, retry_s: 3, method: "GET", event_bytes_limit: 1 << 20, **body)
        @url = url
        @method = method.to_s.upcase
        @event_bytes_limit = event_bytes_limit
        @body = body
        @client = client
        @headers = { "accept" => "text/event-stream", "cache-control" => "no-cache", **headers }
        @last_event_id = last_event_id
        @retry_s = retry_s
      end

      # Yields events until the block leaves or the server ends the stream (204). Reconnects after a
      # connection's end, after errors of the network or the stream, and after 429, 500, 502, 503
      # and 504. Errors of the block reach the caller; {#last_event_id} is then the event before.
      # @yieldparam event [Event]
      # @return [self, Enumerator]
      # @raise [HTTP::Client::Error] the first connection fails, or the server refuses
      # @raise [ProtocolError] it sends no events, or too long ones
      def each(&block)
        return enum_for(:each) unless block

        begun = false
        failures = 0
        failed = nil
        give = lambda do |event|
          failures = 0
          before, @last_event_id = @last_event_id, event.id
          block.call(event)
        rescue Exception => failed # rubocop:disable Lint/RescueException -- is raised again
          @last_event_id = before
          raise
        end
        loop do
          wait_s = nil
          begin
            response = connect
            return self if response.status == 204

            wait_s = refused(response) unless response.status == 200
            begun = true
            read(response, give) unless wait_s
            return self unless @method == "GET"
          rescue HTTP::Client::ConnectionError, HTTP::Client::TimeoutError, HTTP::Client::ProtocolError => error
            raise if !begun || error.equal?(failed) || @method != "GET"
          ensure
            response&.close
          end
          sleep([wait_s || [@retry_s * (1 << [failures, 10].min), [WAIT_LIMIT_S, @retry_s].max].min, LEAST_S * failures].max)
          failures += 1
        end
      end

      private

      def connect
        headers = @last_event_id.to_s.empty? ? @headers : { **@headers, "last-event-id" => @last_event_id }
        @client.stream(@method, @url, headers: headers, timeout_s: nil, **@body)
      end

      # Returns the seconds until the next attempt; raises if the status is final.
      def refused(response)
        again = @method == "GET" && AGAIN.include?(response.status)
        response.check unless again
        raise ProtocolError, "#{response.url[/[^?]*/]} responded with #{response.status} instead of events" unless again

        response.retry_after_s || @retry_s
      end

      def read(response, give)
        parser = Parser.new(@last_event_id, limit: @event_bytes_limit)
        SSE.each(response, parser: parser, &give)
        @last_event_id = parser.id
      ensure
        @retry_s = parser.retry_s || @retry_s
      end
    end
  end
end
