# frozen_string_literal: true

# A second implementation of the log's ingest, in plain Ruby: which message goes to which sinks, and
# how many there were. The head of lib/gyre/log/ingest.rb has the contract. Tests and the fuzzer
# compare ext/gyre/log/log_ingest.c and the files below it with this one: the same bytes in, the
# same bytes in the sinks. Nothing in lib loads it.

require "gyre/log/ingest/json_lines"
require_relative "framing"
require_relative "line"
require_relative "line_time"
require_relative "session"
require_relative "sink"
require_relative "decoder"
require_relative "syslog"

module LogOracle
  # See Gyre::Log::Ingest.
  class Ingest
    # Where a message comes from: by its connection, and as it states itself (host, process,
    # facility).
    Origin = Struct.new(:peer, :stated) do
      # Returns the fields that a sink shows. In text only what the message states, unless the sink
      # is asked for all.
      def fields(format, all)
        host, process, facility = *stated
        own = !all || host
        found = { "host" => own ? host : peer[0], "pid" => own || process ? process : peer[1] }
        found["facility"] = facility if format != :text
        found.reject { |_, value| value.to_s.empty? }.transform_values { |value| value.to_s.b }
      end
    end
    # Under what the services beyond the limit are counted.
    OTHERS = "(others)".b.freeze
    # Longer names have no counter of their own.
    SERVICE_BYTES_LIMIT = 255
    # Pairs of service and severity whose way is remembered.
    CHANNELS_LIMIT = 4096
    private_constant :CHANNELS_LIMIT

    # A service and a severity, where their messages go (nil: nowhere) and where taps have them,
    # too, and their texts.
    class Channel
      attr_reader :sinks, :taps, :counted_as

      def initialize(service, severity, sinks, taps, counted_as)
        @service, @severity, @sinks, @taps, @counted_as = service, severity, sinks, taps, counted_as
        @middles = {}
      end

      def middle(format)
        @middles[format] ||= Line.middle(format, @service, @severity)
      end

      def same?(other)
        equal?(other) || names == other.names
      end

      def names
        [@service, @severity]
      end
    end
    private_constant :Channel

    # Returns how many have come.
    attr_reader :messages
    # Returns how many no route wanted.
    attr_reader :filtered
    attr_reader :bytesize
    attr_reader :incomplete

    def initialize(services_limit: 1000)
      @services_limit = services_limit
      @routes, @taps, @channels, @services = {}, {}.compare_by_identity, {}, {}
      @time, @logged_at = LineTime.new, LineTime.new
      @messages = @filtered = @bytesize = @incomplete = 0
    end

    def sink(format: :text, cull: false, raw: false, origin: nil, limit: nil, key: "gyre")
      Sink.new(self, format, cull, raw, limit, key, origin)
    end

    def route(service, severities, sinks)
      sinks.each { |sink| check_sink(sink) }
      @routes[service&.b] = [severities&.map(&:b), sinks.uniq]
      @channels.clear
      self
    end

    def tap(sink, service = nil)
      check_sink(sink)
      @taps[sink] = service&.b
      @channels.clear
      self
    end

    def untap(sink)
      @taps.delete(sink)
      @channels.clear
      self
    end

    def decoder(kind, session: nil, limit: nil, framing: :auto, host: nil, pid: nil)
      origin = Origin.new([host, pid])
      case kind
      when :analogger then Decoder.new(self, Framing::Frames.new(limit), nil, origin)
      when :records then Decoder.new(self, Framing::Records.new(limit), session, origin)
      when :syslog then Decoder.new(self, Framing::Syslog.new(limit || Syslog::BYTES_LIMIT, framing), nil, origin)
      when :json
        lines = Framing::Lines.new(limit || Gyre::Log::JSONLines::BYTES_LIMIT, Gyre::Log::JSONLines)
        Decoder.new(self, lines, nil, origin)
      else raise ArgumentError, "no decoder of kind #{kind.inspect}"
      end
    end

    def datagram(kind, bytes, time_ns, host = nil)
      case kind
      when :syslog
        if (syslog = Syslog.message(bytes.b))
          service, severity, message, time_us, *stated = *syslog
          origin = Origin.new([host, nil], stated)
        end
      when :json
        service, severity, message, time_us = Gyre::Log::JSONLines.parse(bytes)
        origin = Origin.new([host, nil])
      else raise ArgumentError, "no datagrams of kind #{kind.inspect}"
      end
      deliver(service, severity, message, time_ns, nil, nil, time_us, origin) if service
    end

    def log(service, severity, message, time_ns)
      deliver(service.b, severity.b, message.b, time_ns)
    end

    def session(client_id, last = {})
      Session.new(client_id, last)
    end

    def services
      @services.transform_keys { |name| name.dup.force_encoding(Encoding::UTF_8) }
    end

    # For decoders: a message has come.
    def deliver(service, severity, message, time_ns, session = nil, sequence = nil, time_us = nil, origin = nil)
      @messages += 1
      channel = channel(service, severity)
      @services[channel.counted_as] += 1
      if channel.sinks
        logged_at = @logged_at.at(time_us * 1000) if time_us && LineTime.possible?(time_us)
        give(channel, message, @time.at(time_ns), logged_at, session, sequence, origin)
      else
        @filtered += 1
      end
      session&.receive(sequence)
      nil
    end

    # For sinks: they have grown by so many bytes.
    def hold(bytes)
      @bytesize += bytes
    end

    # For decoders: their incomplete messages have grown by so many bytes.
    def keep(bytes)
      @bytesize += bytes
      @incomplete += bytes
    end

    private

    def check_sink(sink)
      raise TypeError, "not a sink: #{sink.inspect}" unless sink.is_a?(Sink)
      raise ArgumentError, "a sink of another ingest" unless sink.ingest.equal?(self)
    end

    # Sinks of taps come and go: no session remembers them. They get what is new for one of the
    # others.
    def give(channel, message, time, logged_at, session, sequence, origin)
      sinks = channel.sinks
      sinks = sinks.select { |sink| session.new_for?(sink, sequence) } if session
      sinks.each do |sink|
        sink.add(channel, message, time, logged_at, origin)
        sink.note(session.client_id, sequence) if session
      end
      channel.taps.each { |sink| sink.add(channel, message, time, logged_at, origin) } unless session && sinks.empty?
    end

    def channel(service, severity)
      key = [service, severity]
      @channels[key] || begin
        @channels.clear if @channels.size >= CHANNELS_LIMIT
        @channels[key] = Channel.new(service, severity, *sinks_for(service, severity), counted_as(service))
      end
    end

    def sinks_for(service, severity)
      severities, sinks = @routes.fetch(service) { @routes[nil] }
      return [nil, nil] if sinks.nil? || (severities && !severities.include?(severity))

      [sinks, @taps.select { |_, wanted| wanted.nil? || wanted == service }.keys - sinks]
    end

    def counted_as(service)
      name = service.bytesize <= SERVICE_BYTES_LIMIT && (@services.key?(service) || @services.size < @services_limit) ? service : OTHERS
      @services[name] ||= 0
      name
    end
  end
end
