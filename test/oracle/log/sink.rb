# frozen_string_literal: true

# Finished lines for one output, until they are taken. Made and filled by the oracle's ingest. It
# writes nothing anywhere.

require_relative "line"

module LogOracle
  # See Gyre::Log::Ingest.
  class Sink
    attr_reader :lines
    attr_reader :dropped
    attr_reader :format

    attr_reader :ingest

    def initialize(ingest, format, cull, raw, limit, key, origin)
      raise ArgumentError, "format: one of #{Line::FORMATS.join(", ")}, not #{format.inspect}" unless Line::FORMATS.include?(format)

      @ingest, @format, @cull, @raw, @limit = ingest, format, cull, raw, limit
      @origin = origin
      @command = Line.command(key) if format == :redis
      @dropped = 0
      empty
    end

    def bytesize
      @bytes.bytesize
    end

    # Adds a message.
    def add(channel, message, time, logged_at, origin)
      origin = origin && @origin != false ? origin.fields(@format, @origin || @format != :text) : {}
      if @cull
        return repeat(time, logged_at) if @channel&.same?(channel) && @message == message && @from == origin

        write_repeated
        @channel, @message, @from = channel, message.dup, origin
      end
      write(channel, message, time, logged_at, origin)
    end

    # Notes that a client's records are in it.
    def note(client_id, sequence)
      @clients[client_id] = [sequence, @clients.fetch(client_id, 0)].max
    end

    def take(into = String.new(encoding: Encoding::BINARY))
      write_repeated
      into.replace(@bytes)
      taken = [into, @clients] unless @bytes.empty? && @clients.empty?
      hold(-@bytes.bytesize)
      empty
      taken
    end

    private

    def empty
      @bytes = String.new(encoding: Encoding::BINARY)
      @clients = {}
      @lines = @repeats = 0
      @channel = @message = nil
    end

    def hold(bytes)
      @ingest.hold(bytes) unless @limit
    end

    def repeat(time, logged_at)
      @repeats += 1
      @repeat_time, @repeat_logged_at = time.dup, logged_at&.dup
    end

    def write_repeated
      return if @repeats.zero?

      times = @repeats
      @repeats = 0
      write(@channel, "Last message repeated #{times} times".b, @repeat_time, @repeat_logged_at, @from)
    end

    def write(channel, message, time, logged_at, origin)
      before = @bytes.bytesize
      send(@format, @bytes, channel.middle(@format), message, time, logged_at, origin)
      if @limit && @bytes.bytesize > @limit
        @bytes.slice!(before, @bytes.bytesize)
        @dropped += 1
      else
        @lines += 1
        hold(@bytes.bytesize - before)
      end
    end

    def text(bytes, middle, message, time, _logged_at, origin)
      bytes << time.text << middle
      words = origin.map { |name, value| "#{name}=".b << Line.text_field(value) }
      words << (@raw ? message : Line.text(message)) unless message.empty? && words.any?
      bytes << words.join(" ") << "\n"
    end

    def json(bytes, middle, message, time, logged_at, origin)
      bytes << "{\"time\":\"" << time.rfc3339 << middle << Line.json(message)
      bytes << "\",\"logged_at\":\"" << logged_at.rfc3339 if logged_at
      bytes << "\""
      origin.each do |name, value|
        bare = name == "pid" && /\A(?:0|[1-9]\d{0,14})\z/n.match?(value)
        bytes << ",\"" << name << "\":" << (bare ? value : "\"#{Line.json(value)}\"".b)
      end
      bytes << "}\n"
    end

    def redis(bytes, middle, message, time, _logged_at, origin)
      bytes << @command.sub("*11", "*#{11 + (origin.size * 2)}") << middle
      bytes << Line.bulk(message, "time", time.rfc3339, *origin.to_a.flatten)
    end
  end
end
