# frozen_string_literal: true

# An open page: passes messages of its WebSocket to the view, and sends the view's changes. Holds no
# fiber, except one for each Live#every.

require "gyre/broadcast"
require "gyre/sync/queue"
require "json"

module Gyre
  class Live
    # The browser sends ["", token] once, then [event, value] for each event. The server sends
    # [first line, number of lines to drop, new lines, token or null].
    class Page
      WAITING_LIMIT = 1000 # blocks that may wait for the view longer than WAITING_S
      WAITING_S = 5

      # A subscriber of Broadcast, with the view's block for a topic.
      class Subscription < Broadcast::Listener
        def initialize(page, socket, block)
          super(socket)
          @page = page
          @block = block
        end

        private

        def take(data) = @page.later(@block, data)
      end
      private_constant :Subscription

      def initialize(view_class, env)
        @view_class = view_class
        @env = env
        @lock = Thread::Mutex.new
        @html = nil # the HTML that the browser has; nil before its first message
        @token = nil
        @waiting = []
        @subscriptions = []
        @closed = Queue.new
      end

      def on_open(socket)
        @socket = socket
        @view = @view_class.new
        @view.page = self
        @lock.synchronize { @view.mount(@env) }
        @scope = State.scope(@env)
        @mounted = State.digests(@view.kept_values)
        @env = nil
      end

      def on_message(socket, message)
        return socket.close(1007, "no JSON") unless (parsed = parse(message))

        event, value = parsed
        known = @lock.synchronize { @html ? @view.handle(event, value) : join(event, value) }
        return push if known

        socket.report("#{@view.class} has no handler of the event #{event.inspect}") if ENV["RACK_ENV"] == "development"
        socket.close(1008, "unknown event")
      end

      def on_close(socket)
        @closed.close
        socket.report("#{@view_class}: a message of more than #{MESSAGE_BYTES_LIMIT} bytes") if socket.code == 1009
        @subscriptions.each { |topic, subscription| Broadcast.unsubscribe(topic, subscription) }
        @lock.synchronize do
          @ended = true
          @view&.unmount
        end
      end

      # Never waits for another page's handler, which may wait for this page in turn.
      def update(&block)
        return @view.instance_exec(&block) if @lock.owned?

        later(block)
        nil
      end

      def subscribe(topic, block, as)
        subscription = Subscription.new(self, @socket, block)
        @subscriptions << [topic, subscription]
        Broadcast.subscribe(topic, subscription, as: as)
        nil
      end

      def unsubscribe(topic)
        gone, @subscriptions = @subscriptions.partition { |each, _| each == topic }
        gone.each { |_, subscription| Broadcast.unsubscribe(topic, subscription) }
        nil
      end

      def every(seconds, block)
        Fiber.schedule do
          until @socket.closed?
            @closed.pop(timeout: seconds)
            WebSocket::Session.guard(@socket) { run(block) } unless @socket.closed?
          end
        end
        nil
      end

      # Lets the block run in the next turn. Closes the socket if the view does not keep up. Returns
      # false if the socket is closed.
      def later(block, *arguments)
        return false if @socket.closed?

        @waiting_s = Clock.now if @waiting.empty?
        return @socket.close(1013, "too slow") || false if @waiting.size >= WAITING_LIMIT && Clock.now - @waiting_s > WAITING_S

        @waiting << [block, *arguments]
        return true if @posted

        @posted = true
        @socket.thread_calls.post(-> { WebSocket::Session.guard(@socket) { run_waiting } })
        true
      end

      private

      # Returns nil for invalid JSON, and for values that JSON.generate refuses: half a surrogate
      # pair, 1e999.
      def parse(message)
        JSON.parse(message, max_nesting: 10).tap { |parsed| JSON.generate(parsed) }
      rescue JSON::ParserError, JSON::GeneratorError
        nil
      end

      def run(block)
        @lock.synchronize { @view.instance_exec(&block) unless @ended }
        push
      end

      def run_waiting
        @lock.synchronize do
          @posted = false
          waiting, @waiting = @waiting, []
          waiting.each { |block, *arguments| @view.instance_exec(*arguments, &block) unless @ended }
        end
        push
      end

      # Handles a page's first message. `token` has the page's kept variables.
      def join(event, token)
        return false unless event == ""

        @view.restore(token, @scope, @mounted)
        @html = ""
        true
      end

      def push
        @lock.synchronize do
          next unless @html && !@socket.closed?

          html, token = @view.rendered, @view.token(@scope, @mounted)
          next if html == @html && token == @token

          @socket.write(JSON.generate([*changes(@html.split("\n", -1), html.split("\n", -1)), (token if token != @token)]))
          @html, @token = html, token
        end
      end

      # Returns the first changed line's index, the number of old lines to drop, and the new lines.
      def changes(old, new)
        shorter = [old.size, new.size].min
        first = (0...shorter).find { |index| old[index] != new[index] } || shorter
        last = (0...shorter - first).find { |index| old[-1 - index] != new[-1 - index] } || shorter - first
        [first, old.size - first - last, new[first...new.size - last]]
      end
    end
  end
end
