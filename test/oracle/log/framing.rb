# frozen_string_literal: true

# Where messages begin and end in a connection's bytes, for the oracle's streams. The log itself has
# this in ext/gyre/log/log_frame.c, log_record.c and log_syslog_frame.c. A framing answers
#
#   cut(bytes, position) → nil: more is needed; String: what is wrong; or
#                          [position after it, service, severity, message, sequence, time_us]: a whole message
#   last(bytes) → the same for what was left when the connection ended; never nil
#
# and gets the same incomplete message from its beginning again until it is whole. All bytes are
# BINARY.

require "oracle/log/records"
require "gyre/log/wire"
require_relative "syslog"

module LogOracle
  module Framing
    Wire = Gyre::Log::Wire

    # Frames of the old wire, after the first.
    class Frames
      def initialize(limit)
        @limit = limit || Wire::FRAME_BYTES_LIMIT
      end

      def cut(bytes, position)
        return if bytes.bytesize - position < Wire::HEADER_BYTES

        length = Wire.length(bytes.byteslice(position, Wire::HEADER_BYTES), limit: @limit)
        return length if length.is_a?(String)
        return if bytes.bytesize - position < length

        parts = Wire.parts(bytes.byteslice(position, length))
        parts ? [position + length, *parts] : Wire::MALFORMED
      end

      def last(_bytes)
        Wire::CUT_OFF
      end
    end

    # Records of the versioned wire.
    class Records
      def initialize(limit)
        @limit = limit || Gyre::Log::Records::BYTES_LIMIT
      end

      def cut(bytes, position)
        return if bytes.bytesize - position < Gyre::Log::Records::HEADER_BYTES

        length = Gyre::Log::Records.length(bytes, position, @limit)
        return length if length.is_a?(String)
        return if bytes.bytesize - position < Gyre::Log::Records::HEADER_BYTES + length

        fields = Gyre::Log::Records.fields(bytes, position, length)
        return fields if fields.is_a?(String)

        sequence, time_us, service, severity, message = fields
        [position + Gyre::Log::Records::HEADER_BYTES + length, service, severity, message, sequence, time_us]
      end

      def last(_bytes)
        Wire::CUT_OFF
      end
    end

    # Lines that are parsed elsewhere.
    class Lines
      def initialize(limit, parser, ends: "\n")
        @limit, @parser, @ends = limit, parser, ends
        @scanned = 0
      end

      def cut(bytes, position)
        stop = bytes.index(@ends, position + @scanned)
        length = (stop || bytes.bytesize) - position
        return Wire::TOO_LONG if length > @limit

        @scanned = stop ? 0 : length
        stop && [stop + 1, *message(bytes.byteslice(position, length))]
      end

      def last(bytes)
        [bytes.bytesize, *message(bytes)]
      end

      # Whether it is in the middle of a line.
      def started?
        @scanned.positive?
      end

      private

      def message(line)
        service, severity, message, time_us = @parser.parse(line)
        [service, severity, message, nil, time_us] if service
      end
    end

    # Syslog on a stream, RFC 6587: "11 <13>message" counts its bytes, everything else ends with a
    # line feed, or with a zero byte (section 3.4.2; Python's SysLogHandler); one connection may mix
    # them.
    class Syslog
      FRAMINGS = %i[auto octet_counting lines].freeze
      COUNTED = /\G([1-9]\d{0,8}) /n
      COUNT_BEGUN = /\G[1-9]\d{0,8}\z/n
      LINE_END = /[\n\0]/n.freeze
      private_constant :COUNTED, :COUNT_BEGUN, :LINE_END

      def initialize(limit, framing)
        raise ArgumentError, "framing: one of #{FRAMINGS.join(", ")}, not #{framing.inspect}" unless FRAMINGS.include?(framing)

        @limit, @framing = limit, framing
        @lines = Lines.new(limit, LogOracle::Syslog, ends: LINE_END)
      end

      def cut(bytes, position)
        return if position == bytes.bytesize
        return @lines.cut(bytes, position) if @lines.started?

        head = head(bytes, position)
        case head
        when nil, String then head
        when :line then @lines.cut(bytes, position)
        else cut_counted(bytes, *head)
        end
      end

      def last(bytes)
        counted = @framing == :octet_counting || (!@lines.started? && head(bytes, 0).is_a?(Array))
        counted ? Wire::CUT_OFF : @lines.last(bytes)
      end

      private

      # nil: more is needed; :line; where the message begins and how long it is; or what is wrong.
      def head(bytes, position)
        return :line if @framing == :lines
        return if COUNT_BEGUN.match?(bytes, position)

        match = COUNTED.match(bytes, position)
        return match ? [match.end(0), match[1].to_i] : Wire::MALFORMED if @framing == :octet_counting
        return :line unless match
        return if match.end(0) == bytes.bytesize # a line may begin with a number, too

        bytes.getbyte(match.end(0)) == 60 ? [match.end(0), match[1].to_i] : :line
      end

      def cut_counted(bytes, start, length)
        return Wire::TOO_LONG if length > @limit
        return if bytes.bytesize - start < length

        service, severity, message, time_us = LogOracle::Syslog.parse(bytes.byteslice(start, length))
        service ? [start + length, service, severity, message, nil, time_us] : [start + length]
      end
    end
  end
end
