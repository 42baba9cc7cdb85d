# frozen_string_literal: true

# A connection's bytes on their way through the oracle's ingest. It keeps an incomplete message
# until the rest comes; where messages begin and end is its framing's knowledge
# (LogOracle::Framing).

module LogOracle
  # See Gyre::Log::Ingest.
  class Decoder
    attr_reader :messages

    def initialize(ingest, framing, session, origin = nil)
      @ingest, @framing, @session, @origin = ingest, framing, session, origin
      @rest = String.new(encoding: Encoding::BINARY)
      @messages = 0
      @wrong = nil
    end

    def bytesize
      @rest.bytesize
    end

    # Returns the incomplete message; another decoder goes on when it is fed with it.
    def rest
      @rest.b
    end

    def feed(bytes, time_ns)
      return @wrong if @wrong

      before = @rest.bytesize
      # A copy: whatever shares the reader's buffer makes Ruby give it a new one for the next read.
      all = (before.zero? ? String.new(capacity: bytes.bytesize, encoding: Encoding::BINARY) : @rest) << bytes
      position = cut(all, time_ns)
      keep(left(all, position), before)
      @wrong
    end

    # What has come is all.
    def finish(time_ns)
      return @wrong if @wrong || @rest.empty?

      rest, before = @rest, @rest.bytesize
      keep("".b, before)
      last = @framing.last(rest)
      return @wrong = last if last.is_a?(String)

      deliver(last, time_ns)
      nil
    end

    private

    # Delivers every whole message.
    def cut(bytes, time_ns)
      position = 0
      while (found = @framing.cut(bytes, position))
        if found.is_a?(String)
          @wrong = found
          break
        end
        if @session && !@session.may?(found[4])
          @wrong = "sequence number too far ahead"
          break
        end
        position = found.first
        deliver(found, time_ns)
      end
      position
    end

    # Nothing is copied while a long message comes in small pieces.
    def left(bytes, position)
      return "".b if @wrong

      position.zero? ? bytes : bytes.byteslice(position, bytes.bytesize)
    end

    # A frame without a message, such as an empty line, is only passed over.
    def deliver((_, service, severity, message, sequence, time_us, syslog), time_ns)
      return unless service

      @messages += 1
      origin = @origin.dup
      origin.stated = syslog.to_a.last(3) if syslog
      @ingest.deliver(service, severity, message, time_ns, @session, sequence, time_us, origin)
    end

    # A part of what has come would keep all of the reader's buffer with it.
    def keep(rest, before)
      @rest = String.new(encoding: Encoding::BINARY) << rest unless rest.equal?(@rest)
      @ingest.keep(rest.bytesize - before)
    end
  end
end
