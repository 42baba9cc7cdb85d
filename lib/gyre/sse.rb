# frozen_string_literal: true

# Server-sent events (WHATWG HTML, section 9.2) in a Rack app: Gyre::SSE.open makes a response whose
# body is an open stream of events, over any version of HTTP. Touches no socket.

require "gyre/errors"
require "gyre/sync/queue"

module Gyre
  # Events for a page's EventSource, which connects again by itself.
  module SSE
    # Headers of each response: it is a stream of events, no cache may store it, and nginx must pass
    # each event on at once.
    HEADERS = { "content-type" => "text/event-stream", "cache-control" => "no-cache", "x-accel-buffering" => "no" }.freeze
    LINE_END = /\r\n|\r|\n/.freeze
    private_constant :LINE_END
    autoload :Listening, "gyre/sse/listening"

    class << self
      # Makes a response of events; it ends when the block returns. Its headers ask proxies to pass
      # each event on at once. With topics instead of a block it sends what is published to them
      # ({Broadcast.publish}) and holds no fiber, unless {Broadcast.keep} keeps a topic.
      #
      # @param env [Hash] of the request
      # @param topics [Array<String, Symbol, Array>, nil] to subscribe to
      # @param as (see Gyre::Broadcast.subscribe)
      # @param headers [Hash] more headers
      # @param retry_s [Numeric, nil] how long the page waits before it connects again
      # @param heartbeat_s [Numeric] between comments while there is nothing to send
      # @yieldparam events [Events]
      # @return [Array] status, headers, body
      # @raise [ArgumentError] neither a block nor topics, or both
      def open(env, headers: {}, retry_s: nil, heartbeat_s: 15, topics: nil, as: nil, &block)
        raise ArgumentError, "events need a block or topics" unless block.nil? ^ topics.nil?

        opening = retry_s ? "retry: #{Integer(retry_s * 1000)}\n\n" : ":\n\n" # shows the page that it is connected
        listening = Listening.new(topics, as, opening, heartbeat_s) if topics
        block ||= listening.method(:with_fiber)
        body = lambda do |stream|
          events = Events.new(stream, env, heartbeat_s)
          stream.write(opening)
          block.call(events)
        ensure
          events&.close
        end
        body.define_singleton_method(:leave_http) { |exchange| listening.leave_http(exchange) } if listening&.without_fiber?
        [200, { **HEADERS, **headers }, body]
      end

      # The text of one event.
      #
      # @param data [#to_s] of any number of lines
      # @param event [String, nil] its type, if not message
      # @param id [String, nil] what Last-Event-ID will be
      # @return [String]
      # @raise [ArgumentError] a line end in the type or the id, or a NUL in the id
      def format(data, event: nil, id: nil)
        text = +""
        text << "event: #{field(event)}\n" if event
        text << "id: #{field(id)}\n" if id
        lines = data.to_s.encode(Encoding::UTF_8).split(LINE_END, -1)
        (lines.empty? ? [""] : lines).each { |line| text << "data: #{line}\n" }
        text << "\n"
      end

      private

      def field(value)
        value = value.to_s
        raise ArgumentError, "#{value.inspect} has a line end or a NUL" if value.match?(/[\r\n\0]/)

        value
      end
    end

    # Included in subscribers that send the text of a {Broadcast::Message}.
    # @api private
    module Stream; end

    # One open stream. {#write} and {#comment} belong to one fiber at a time; {Broadcast} may
    # deliver from any thread.
    class Events
      include Stream

      # Bytes of broadcasts that a client has not taken; beyond it the stream ends, and the page
      # connects again.
      BACKLOG_BYTES_LIMIT = 1 << 20

      # @return [String, nil] the id of the last event that the page has seen, as it connects again
      attr_reader :last_event_id

      # @api private
      def initialize(stream, env, heartbeat_s)
        @stream = stream
        @gone = env["gyre.client_gone"]
        @last_event_id = env["HTTP_LAST_EVENT_ID"]
        @heartbeat_s = heartbeat_s
        @queue = Queue.new
        @lock = Thread::Mutex.new
        @backlog = 0 # bytes; not in the server's output budget, as all streams share a message's text
        @backlog_limit = BACKLOG_BYTES_LIMIT
        @topics = []
        @kept = [] # topics whose history is to be sent
        @closed = false
      end

      # Sends an event; waits while the client is slow.
      #
      # @param data [#to_s]
      # @param options (see Gyre::SSE.format)
      # @return [self]
      # @raise [Errno::EPIPE, Errno::ECONNRESET, HTTP::WriteTimeout] the client is gone
      def write(data, **options) = send_text(SSE.format(data, **options))
      alias << write

      # Sends a comment, which the page does not see, to learn whether the client is still there.
      #
      # @param text [String] one line
      # @return [self]
      # @raise (see #write)
      def comment(text = "") = send_text(":#{text.tr("\r\n", " ")}\n\n")

      # Sends each message published to the topics ({Broadcast.subscribe}). Ends when the client has
      # left or is too slow, or when {#close} is called.
      #
      # @return [nil]
      # @raise (see #write)
      def listen
        @listening = true
        @history&.synchronize { catch_up }
        until @closed && @queue.empty?
          text = @queue.pop(timeout: @heartbeat_s)
          next @closed || gone? ? break : comment unless text

          @lock.synchronize { @backlog -= text.bytesize }
          send_text(text)
        end
        nil
      end

      # Whether the client is known to have left.
      def gone? = @gone ? @gone.gone? : false

      # Ends {#listen}, and unsubscribes. May be called again, from any thread.
      # @return [nil]
      def close
        @topics.each { |topic| topic.delete(self) }
        @topics.clear
        @closed = true
        @queue.close
        nil
      end

      # @return [Boolean]
      def closed? = @closed

      # @api private
      def join(topic)
        return false if @closed

        @topics << topic unless topic.key?(self)
        topic[self] = true
        leave(topic) if @closed # by another thread meanwhile
        !@closed
      end

      # @api private
      def leave(topic)
        @topics.delete_if { |each| each.equal?(topic) }
        topic.delete(self)
      end

      # For {Broadcast}, under the history's lock. Returns :gap if events are missing.
      # @api private
      def follow(history, topic)
        @history = history
        @position ||= history.position(@last_event_id)
        @kept << topic
        gap = history.gap?(topic, @position)
        catch_up if @listening
        gap ? :gap : true
      end

      # For {Broadcast}: never waits. False: closed, or too slow and closed now.
      # @api private
      def deliver(message)
        return false if @closed

        return true if message.origin && (@kept.any? || seen?(message)) # the history has it

        text = message.event(@ahead)
        backlog = @lock.synchronize { @backlog += text.bytesize }
        return close || false if backlog > @backlog_limit

        @queue.push(text)
        true
      rescue EncodingError
        false # binary data, published in another process
      end

      # @api private
      alias disconnect close

      # Any thread may use it.
      # @api private
      def foreign? = false

      private

      # Sends the history of new topics, whose bytes do not count for the limit.
      def catch_up
        return if @kept.empty? || @closed

        texts, @ahead = @history.missed(@kept.slice!(0..), @position)
        bytes = texts.sum(&:bytesize)
        @lock.synchronize { @backlog, @backlog_limit = @backlog + bytes, @backlog_limit + bytes }
        texts.each { |text| @queue.push(text) }
      end

      # True if the client already has the message: another process sent it earlier.
      def seen?(message)
        number = @ahead&.[](message.origin) or return false
        if message.number >= number
          @ahead = @ahead.except(message.origin)
          @ahead = nil if @ahead.empty?
        end
        message.number <= number
      end

      def send_text(text)
        @stream.write(text)
        self
      end
    end
  end
end
