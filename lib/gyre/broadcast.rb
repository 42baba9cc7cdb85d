# frozen_string_literal: true

# Publish and subscribe for WebSockets and event streams. Frames a message once in each process;
# delivers it without waiting. Relay carries messages between processes; History keeps the last
# messages for streams that reconnect.

require "gyre/broadcast/history"
require "gyre/broadcast/listener"
require "gyre/broadcast/uplink"
require "gyre/http/thread_calls"
require "gyre/sse"

module Gyre
  # Topics and their subscribers. Any thread may call the module's methods. Under `gyre serve -w`,
  # messages of workers and of programs beside them reach subscribers in all workers. Messages of
  # one publisher stay in order.
  #
  # A topic is a String, a Symbol, or an Array of these and Integers, like [:room, 5]. A String and
  # a Symbol with the same text are the same topic.
  #
  #   Gyre::WebSocket.open(env) do |socket|
  #     Gyre::Broadcast.subscribe("chat", socket)
  #     socket.each { |message| Gyre::Broadcast.publish("chat", message) }
  #   end
  module Broadcast
    # A published message, in the forms that its subscribers need.
    # @api private
    class Message
      attr_reader :data, :order, :origin, :number, :seen

      def initialize(data, options)
        @data = data.frozen? ? data : data.dup.freeze # the program may use its String again
        @options = options
        SSE.format("", **options) unless options.empty? # raises for invalid options
      end

      def initialize_copy(_) = @frames = @events = nil

      # True if event streams can carry the message.
      def text? = @data.encoding != Encoding::BINARY || @data.ascii_only?

      # Returns a frame, which is compressed once for all sockets with the same window bits.
      def frame(window_bits = 0) = (@frames ||= {})[window_bits] ||= WebSocket.frame(@data, window_bits)

      # Returns the text for event streams. `ahead` maps publishers to the last message number that
      # the client has seen, if this process has seen only lower numbers of the publisher (History).
      def event(ahead = nil) = (@events ||= {})[ahead] ||= event_at(ahead ? @seen&.with(ahead) : @seen).freeze

      def event_at(position) = position ? SSE.format(@data, **@options, id: position) : SSE.format(@data, **@options)

      # Sets the message's place in the history.
      def place(order, origin, number, seen)
        @order, @origin, @number, @seen = order, origin, number, seen
      end
    end

    @history = History.new
    @topics = {} # topic => { subscriber => true }
    @lock = Thread::Mutex.new
    @swept = 64 # when there are more topics, those without subscribers are dropped

    class << self
      # Shares messages with all processes, on any machine, that use the same Redis. Call it in
      # config.ru or an initializer. Each process makes two connections at its first message or
      # subscriber. While Redis is unreachable, messages of this process wait, and messages of other
      # processes are lost. A warning reports the outage.
      # @param url [String] redis://user:password@host:port/database, redis+unix:///path; with TLS
      #   rediss://host?ca=PATH&cert=PATH&key=PATH&verify=false, all options optional ({TLS.client})
      # @param channel [String] of Redis
      # @return [nil]
      # @raise [ArgumentError] an invalid address
      def connect(url, channel: "gyre:broadcast")
        require "gyre/broadcast/redis"
        Relay.attach(Redis.new(url, channel) { |text| warn("gyre: #{text}") }.carrier, inherited: true)
        nil
      end

      # Keeps a topic's last messages for event streams. Events of the topic then have ids, and a
      # stream with Last-Event-ID first gets the events that it has missed, each once. Call it in
      # config.ru or an initializer, before the first message.
      # @param topic [String, Symbol, Array]
      # @param count [Integer] messages at most
      # @param bytes [Integer] their bytes at most
      # @return [nil]
      # @raise [ArgumentError]
      def keep(topic, count, bytes: 512 << 10)
        topic = key(topic)
        unless [count, bytes].all? { |each| each.is_a?(Integer) && each.positive? }
          raise ArgumentError, "a history of #{count.inspect} messages in #{bytes.inspect} bytes"
        end

        @history.keep(topic, count, bytes)
        nil
      end

      # Subscribes until the subscriber closes or unsubscribes.
      # @param topic [String, Symbol, Array]
      # @param subscriber [WebSocket, SSE::Events]
      # @param as [String, Symbol, Integer, Array, nil] such as a user's id, for {disconnect}
      # @return [Boolean, :gap] false: closed; :gap: subscribed, but events are missing ({keep})
      # @raise [ArgumentError] a topic that no other process could know
      def subscribe(topic, subscriber, as: nil)
        Relay.attached?
        topics = as ? [key(topic), identity(as)] : [key(topic)]
        @history.ordered(topics.first) do |kept|
          known = @topics[topics.first]&.key?(subscriber)
          next false unless join(topics, subscriber)

          kept && !known && subscriber.is_a?(SSE::Events) ? subscriber.follow(@history, topics.first) : true
        end
      end

      # @param topic [String, Symbol, Array]
      # @param subscriber [WebSocket, SSE::Events]
      # @return [nil]
      def unsubscribe(topic, subscriber)
        topic = key(topic)
        @lock.synchronize do
          subscribers = @topics[topic] or return
          subscriber.leave(subscribers)
          @topics.delete(topic) if subscribers.empty?
          nil
        end
      end

      # Sends a message to all subscribers of a topic. Waits only while the server holds more unsent
      # bytes than its output_bytes_limit; a subscriber is cut off if much waits for it and it takes
      # too little of that (backlog_bytes_limit, backlog_timeout_s). If 8 MB of messages wait for a
      # worker, further messages for this worker are dropped, and the log has their number.
      # @param topic [String, Symbol, Array]
      # @param message [String] as for {WebSocket#write}; with workers at most 16 MB as JSON
      # @param options [Hash] event:, id: for event streams (SSE.format); no id: for a kept topic
      # @return [Integer] subscribers in this process that were not cut off
      # @raise [ArgumentError, EncodingError] a subscriber cannot carry it; no subscriber gets it
      def publish(topic, message, **options)
        topic = key(topic)
        message = Message.new(message, options)
        attached = Relay.attached?
        subscribers = nil
        taken = @history.ordered(topic) do |kept|
          raise ArgumentError, "events of a kept topic get their ids by themselves" if kept && options[:id]

          subscribers = subscribers(topic)
          message.frame if attached || subscribers.any?(WebSocket)
          message.event_at(nil) if kept || (!message.text? && subscribers.any?(SSE::Events))
          place = relay(topic, message.data, options) if kept || attached
          @history.add(topic, message, *place) if kept
          deliver(message, subscribers)
        end
        pace(subscribers)
        taken
      end

      # Closes all sockets (with 1008) and streams of one identity in all workers, such as those of
      # a user at logout. The app must refuse new connections.
      # @param as [String, Symbol, Integer, Array]
      # @return [Integer] closed in this process
      def disconnect(as)
        topic = identity(as)
        Relay.send("disconnect", topic, nil, {}) if Relay.attached?
        disconnect_all(subscribers(topic))
      end

      # @param topic [String, Symbol, Array]
      # @return [Integer] subscribers in this process
      def count(topic) = @topics[key(topic)]&.size || 0

      # Called by Relay with a message of another process.
      # @api private
      def arrived(kind, topic, data, options, origin, number)
        data = data.unpack1("m0") if kind == "binary"
        message = Message.new(data, options) unless kind == "disconnect"
        subscribers = nil
        @history.ordered(topic) do |kept|
          @history.add(topic, message, origin, number) if kept && message&.text?
          subscribers = subscribers(topic)
          message ? deliver(message, subscribers) : disconnect_all(subscribers)
        end
        pace(subscribers)
      end

      # Sends a text to some sockets, as {publish} does to those of a topic.
      # @api private
      def deliver_to(sockets, text) = deliver(Message.new(text, {}), sockets).tap { pace(sockets) }

      # Called when messages of other processes begin to arrive, also after an outage.
      # @api private
      def hears
        Relay.attached? if @history.any?
        @history.interrupted
      end

      private

      def key(topic) = topic.is_a?(Array) ? topic.map { |part| part.is_a?(Integer) ? part : name(part) } : name(topic)

      # Returns a topic that no program can name.
      def identity(as) = [nil, *key(Array(as))]

      def name(part)
        name = part.is_a?(Symbol) ? part.name : part
        if name.is_a?(String)
          name = name.dup.force_encoding(Encoding::UTF_8) if name.encoding == Encoding::BINARY
          return name.encode(Encoding::UTF_8) if name.valid_encoding?
        end
        raise ArgumentError, "a topic is a String in UTF-8, a Symbol, or an Array of these and Integers; #{part.inspect} is not"
      end

      def relay(topic, data, options)
        binary = data.encoding == Encoding::BINARY
        Relay.send(binary ? "binary" : "text", topic, binary ? [data].pack("m0") : data, options.compact.transform_values(&:to_s))
      end

      def join(topics, subscriber)
        @lock.synchronize do
          sweep if @topics.size > @swept
          topics.all? { |each| subscriber.join(@topics[each] ||= {}.compare_by_identity) }
        end
      end

      def subscribers(topic) = @lock.synchronize { @topics[topic]&.keys } || []

      # Delivers at once to subscribers of this thread's loop, so that a later write or disconnect
      # does not overtake the message; but not before what other threads have handed over.
      # Returns the number of subscribers that took it.
      def deliver(message, subscribers)
        HTTP::ThreadCalls.run_in_order
        taken = WebSocket.deliver_all(message, subscribers, elsewhere = [])
        taken + in_their_threads(elsewhere) { |some| WebSocket.deliver_all(message, some, []) }
      end

      def disconnect_all(subscribers)
        HTTP::ThreadCalls.run_in_order
        elsewhere, here = subscribers.partition(&:foreign?)
        here.each(&:disconnect)
        here.size + in_their_threads(elsewhere) { |some| some.each(&:disconnect) }
      end

      # Calls the block soon in each loop's thread with the loop's sockets; returns their number.
      def in_their_threads(sockets)
        sockets.group_by(&:thread_calls).sum do |calls, some|
          calls.post_in_order(-> { yield some })
          some.size
        rescue IOError
          0 # the server has ended
        end
      end

      # Waits while a server of the subscribers is behind.
      def pace(subscribers)
        first = subscribers.first or return
        heads = first.foreign? || subscribers.last.foreign? ? subscribers.uniq(&:thread_calls) : [first]
        heads.each { |each| each.pace if each.behind? || (each.foreign? && each.thread_calls.behind?) }
      rescue IOError
        nil # the server has ended
      end

      # Drops topics that have no subscribers any more.
      def sweep
        @topics.delete_if { |_, subscribers| subscribers.empty? }
        @swept = [2 * @topics.size, 64].max
      end
    end
    Uplink.attach
  end
end
