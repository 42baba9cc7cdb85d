# frozen_string_literal: true

# Server-sent events (WHATWG HTML, section 9.2) in a Rack app: Gyre::SSE.open makes a response that
# becomes a stream of events, over any version of HTTP. Touches no socket.

require "gyre/websocket"

module Gyre
  # Events for a page's EventSource, which reconnects by itself.
  module SSE
    extend Parts

    # No cache may store the stream, and no middleware may compress it; nginx must pass each event
    # on at once.
    HEADERS = { "content-type" => "text/event-stream", "cache-control" => "no-cache, no-transform", "x-accel-buffering" => "no" }.freeze
    LINE_END = /\r\n|\r|\n/.freeze
    # The body of the response; only another server calls it. (A module, because Ractors share it.)
    # @api private
    module Elsewhere
      # Raises in a server that is not Gyre's.
      def self.call(_stream) = raise("Gyre::SSE needs Gyre's server")
    end
    private_constant :LINE_END, :Elsewhere
    autoload :Events, "gyre/sse/events"

    class << self
      # Makes a response that streams events and ends when the block returns. Its headers ask
      # proxies to pass each event on at once. If topics are given instead of a block, it sends the
      # messages that are published to them ({Broadcast.publish}), and holds no fiber.
      # @param env [Hash] of the request
      # @param topics [Array<String, Symbol, Array>, nil] to subscribe to
      # @param as (see Gyre::Broadcast.subscribe)
      # @param headers [Hash] more headers
      # @param retry_s [Numeric, nil] how long the page waits before it connects again
      # @param heartbeat_s [Numeric] between comments
      # @yieldparam events [Events]
      # @return [Array] status, headers, body
      # @raise [ArgumentError] neither a block nor topics, or both
      def open(env, topics: nil, as: nil, **options, &block)
        raise ArgumentError, "events need a block or topics" unless block.nil? ^ topics.nil?

        respond(env, WebSocket::Session::Block.new(block || listening(topics, as), stays: !topics.nil?), **options)
      end

      # `session`: a block or handler; `wants`: flags of its events (WebSocket::Session).
      # @api private
      def respond(env, session, wants: 0, headers: {}, retry_s: nil, heartbeat_s: 15)
        opening = retry_s ? "retry: #{Integer(retry_s * 1000)}\n\n" : ":\n\n" # shows the page that it is connected
        # A comment is sent after half of the idle time.
        limits = WebSocket::Limits::TABLE.read({ idle_timeout_s: 2 * heartbeat_s, close_timeout_s: nil })
        upgrade = lambda do |exchange|
          exchange.write_body(opening)
          Events.begin(exchange, session, wants, limits, env["HTTP_LAST_EVENT_ID"])
        end
        [200, { **HEADERS, **headers, "rack.gyre.upgrade" => upgrade }, Elsewhere]
      end

      # Returns an event's text.
      # @param data [#to_s] one or more lines
      # @param event [String, nil] its type; nil: message
      # @param id [String, nil] the next Last-Event-ID
      # @return [String]
      # @raise [ArgumentError] a line end in type or id, or a NUL in the id
      def format(data, event: nil, id: nil)
        text = +""
        text << "event: #{field(event)}\n" if event
        text << "id: #{field(id)}\n" if id
        lines = data.to_s.encode(Encoding::UTF_8).split(LINE_END, -1)
        (lines.empty? ? [""] : lines).each { |line| text << "data: #{line}\n" }
        text << "\n"
      end

      private

      def listening(topics, as)
        lambda do |events|
          topics.each { |topic| Broadcast.subscribe(topic, events, as: as) }
          events.catch_up
        end
      end

      def field(value)
        value = value.to_s
        raise ArgumentError, "#{value.inspect} has a line end or a NUL" if value.match?(/[\r\n\0]/)

        value
      end
    end
  end
end
