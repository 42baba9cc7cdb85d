# frozen_string_literal: true

# An open page: passes messages of its WebSocket to the view, and sends the view's changes. Holds no
# fiber, except one for each Live#every.

require "gyre/broadcast"
require "gyre/scheduler/job"
require "gyre/sync/queue"
require "json"

module Gyre
  class Live
    # The browser sends ["", token] once, then [event, value] for each event. The server sends
    # [first line, number of lines to drop, new lines, token or null].
    class Page
      WAITING_LIMIT = 1000 # maximum messages of topics that wait for the view

      # A subscriber of Broadcast, with the view's block for a topic.
      class Subscription
        def initialize(page, block)
          @page = page
          @block = block
          @thread = Thread.current
        end

        def join(subscribers) = subscribers[self] = true

        def leave(subscribers) = subscribers.delete(self)

        def deliver(message) = (@page.later(@block, message.data) if Thread.current == @thread)

        def thread_calls = @page.thread_calls
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
        @env = nil
      end

      def on_message(socket, message)
        return socket.close(1007, "no JSON") unless (parsed = parse(message))

        event, value = parsed
        known = @lock.synchronize { @html ? @view.handle(event, value) : join(event, value) }
        known ? push : socket.close(1008, "unknown event")
      end

      def on_close(_socket)
        @closed.close
        @subscriptions.each { |topic, subscription| Broadcast.unsubscribe(topic, subscription) }
        @lock.synchronize { @view&.unmount }
      end

      def thread_calls = @socket.thread_calls

      def update(&block)
        return @view.instance_exec(&block) if @lock.owned?

        @lock.synchronize { @view.instance_exec(&block) }
        push
      end

      def subscribe(topic, block)
        subscription = Subscription.new(self, block)
        @subscriptions << [topic, subscription]
        Broadcast.subscribe(topic, subscription)
        nil
      end

      def every(seconds, block)
        Fiber.schedule do
          until @socket.closed?
            @closed.pop(timeout: seconds)
            guard { update(&block) } unless @socket.closed?
          end
        end
        nil
      end

      # Lets the block run in the next turn. Closes the socket if WAITING_LIMIT blocks wait. Returns
      # false if the socket is closed.
      def later(block, argument)
        return false if @socket.closed?
        return @socket.close(1013, "too slow") || false if @waiting.size >= WAITING_LIMIT

        @waiting << [block, argument]
        thread_calls.post(-> { guard { run_waiting } }) if @waiting.size == 1
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

      def run_waiting
        @lock.synchronize do
          waiting = @waiting
          @waiting = []
          waiting.each { |block, argument| @view.instance_exec(argument, &block) }
        end
        push
      end

      # Handles a page's first message. `token` has the page's kept variables.
      def join(event, token)
        return false unless event == ""

        @view.restore(token)
        @html = ""
        true
      end

      def push
        @lock.synchronize do
          next unless @html && !@socket.closed?

          html, token = @view.rendered, @view.token
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

      # Runs blocks outside of callbacks as an event. Handles their exceptions.
      def guard(&block)
        Job.event(&block)
      rescue StandardError => error
        WebSocket::Session.failed(@socket, error)
      end
    end
  end
end
