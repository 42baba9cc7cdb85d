# frozen_string_literal: true

# Keeps the last messages of topics (Broadcast.keep) for event streams that reconnect. An event's id
# is a Position: the last message number of each publisher. Any process can continue from a
# Position, even if it received the publishers' messages in another order.
#
#   "1764000000000,k3JxZ0…:17,x8QaB4…:4"   milliseconds, publisher:number, …

module Gyre
  module Broadcast
    class History
      PUBLISHERS_LIMIT = 32

      # `numbers` maps each publisher to the last of its message numbers that a client or a process
      # had seen at `time` (ms).
      Position = Struct.new(:time, :numbers) do
        # Returns nil if `text` is not a Position. A client that forges one harms only itself.
        def self.parse(text)
          return unless text&.match?(/\A\d{1,15}(,\w{1,32}:\d{1,18}){0,64}\z/)

          time, *pairs = text.split(",")
          new(time.to_i, pairs.to_h { |pair| pair.split(":").then { |origin, number| [origin, number.to_i] } })
        end

        def covers?(origin, number) = number <= numbers.fetch(origin, 0)

        def with(others, time = self.time)
          merged = numbers.merge(others) { |_, one, other| [one, other].max }
          self.class.new(time, merged.size > 2 * PUBLISHERS_LIMIT ? merged.drop(merged.size - (2 * PUBLISHERS_LIMIT)).to_h : merged)
        end

        def to_s = [time, *numbers.map { |origin, number| "#{origin}:#{number}" }].join(",")
      end

      # The position of one event stream in the history.
      class Reading
        def initialize(history, last_event_id)
          @history = history
          @position = history.position(last_event_id)
          @topics = []
        end

        # Adds a topic. Called under the history's lock. Returns :gap if events are missing.
        def follow(topic)
          @topics << topic
          @history.gap?(topic, @position) ? :gap : true
        end

        # Returns the events after those of the last call, or :gap if the history has dropped some
        # of them. Returns nil if there are no such events; from then on {#text} returns each event.
        def more
          @history.synchronize do
            next :gap if @begun && @topics.any? { |topic| @history.lost?(topic, @position) }

            texts, @ahead, @position = @history.missed(@topics, @position)
            if @begun && texts.size == 1
              @order = @history.order
              next
            end
            @begun = true
            texts.join
          end
        end

        # Returns the text of a message; nil if {#more} returns it, or the client has it.
        def text(message) = (message.event(@ahead) unless @order.nil? || message.order <= @order || seen?(message))

        private

        # True if another process has already sent the message to the client.
        def seen?(message)
          number = @ahead&.[](message.origin) or return false
          if message.number >= number
            @ahead = @ahead.except(message.origin)
            @ahead = nil if @ahead.empty?
          end
          message.number <= number
        end
      end

      # `lost` maps each publisher to the number of its last dropped message.
      Kept = Struct.new(:count_limit, :bytes_limit, :messages, :bytes, :lost)
      private_constant :Kept

      attr_reader :order # number of messages that this process has added

      def initialize
        @topics = {}
        @lock = Thread::Mutex.new
        @order = 0
        forget
      end

      def keep(topic, count, bytes) = @lock.synchronize { @topics[topic] = Kept.new(count, bytes, [], 0, {}) }

      def any? = @topics.any?

      # Yields whether the topic is kept. For kept topics runs one block at a time, so that their
      # messages stay in order.
      def ordered(topic) = @topics.key?(topic) ? synchronize { yield true } : yield(false)

      def synchronize
        @lock.synchronize do
          forget unless @pid == Process.pid
          yield
        end
      end

      # Records that messages of other processes may have been missed until now.
      def interrupted = synchronize { @began = now }

      # Adds a message before its delivery.
      def add(topic, message, origin, number)
        @seen.delete(origin)
        forget_publisher if @seen.size >= PUBLISHERS_LIMIT
        @seen[origin] = number
        message.place(@order += 1, origin, number, Position.new(now, @seen.dup))
        kept = @topics[topic]
        kept.messages << message.dup # the copy has no cached frames and texts
        kept.bytes += message.data.bytesize
        drop(kept) while kept.messages.size > kept.count_limit || kept.bytes > kept.bytes_limit
      end

      # Returns the position at which a client starts.
      def position(last_event_id) = Position.parse(last_event_id) || Position.new(now, @seen.dup)

      # True if messages after this position may be missing.
      def gap?(topic, position) = position.time < @began || lost?(topic, position)

      # True if messages after this position are not kept any more.
      def lost?(topic, position) = @topics[topic].lost.any? { |origin, number| !position.covers?(origin, number) }

      # Returns three values: the events after a position; the numbers that the client has seen and
      # this process has not, or nil; the position after the events.
      def missed(topics, position)
        messages = topics.uniq.flat_map { |topic| @topics[topic].messages }
        messages = messages.reject { |message| position.covers?(message.origin, message.number) }.sort_by(&:order)
        ahead = position.numbers.reject { |origin, number| number <= @seen.fetch(origin, 0) }.to_a.last(PUBLISHERS_LIMIT).to_h
        texts = messages.map do |message|
          position = position.with({ message.origin => message.number }, message.seen.time)
          message.event_at(position)
        end
        position = Position.new(now, @seen).with(ahead)
        [texts << "id: #{position}\n\n", (ahead unless ahead.empty?), position]
      end

      private

      def now = Process.clock_gettime(Process::CLOCK_REALTIME, :millisecond)

      # Begins an empty history, also in a forked child.
      def forget
        @pid = Process.pid
        @began = now
        @seen = {} # publisher => number of its last message; the publisher heard last is at the end
        @topics.each_value { |kept| kept.messages, kept.bytes, kept.lost = [], 0, {} }
      end

      def drop(kept)
        message = kept.messages.shift
        kept.bytes -= message.data.bytesize
        kept.lost[message.origin] = message.number
      end

      def forget_publisher
        origin, = @seen.shift
        @began = now
        @topics.each_value do |kept|
          kept.messages.delete_if { |message| message.origin == origin && kept.bytes -= message.data.bytesize }
          kept.lost.delete(origin)
        end
      end
    end
  end
end
