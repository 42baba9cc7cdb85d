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

    # Lines that are parsed elsewhere. A line beyond the limit is cut, and the rest of it skipped.
    class Lines
      attr_reader :overlong

      def initialize(limit, parser, ends: "\n")
        @limit, @parser, @ends = limit, parser, ends
        @scanned = @overlong = 0
        @skips = false
      end

      def cut(bytes, position)
        return skip(bytes, position) if @skips

        stop = bytes.index(@ends, position + @scanned)
        length = (stop || bytes.bytesize) - position
        long = length > @limit
        @scanned = stop || long ? 0 : length
        return unless stop || long

        @skips = stop.nil?
        @overlong += 1 if long
        [position + length + (stop ? 1 : 0), *message(bytes.byteslice(position, [length, @limit].min))]
      end

      def last(bytes)
        [bytes.bytesize, *message(bytes)]
      end

      # Whether it is in the middle of a line.
      def started?
        @scanned.positive? || @skips
      end

      private

      def skip(bytes, position)
        stop = bytes.index(@ends, position)
        @skips = stop.nil?
        [stop ? stop + 1 : bytes.bytesize]
      end

      def message(line)
        return [*@parser.message(line)&.then { |message| [message.service, message.severity, message.text, nil, message.time_us, message] }] if
          @parser.respond_to?(:message)

        service, severity, message, time_us = @parser.parse(line)
        [service, severity, message, nil, time_us] if service
      end
    end

    # Syslog on a stream, RFC 6587: "11 <13>message" counts its bytes, everything else ends with a
    # line feed, or with a zero byte (section 3.4.2; Python's SysLogHandler); one connection may mix
    # them.
    class Syslog
      FRAMINGS = %i[auto octet_counting lines zero].freeze
      COUNTED = /\G([1-9]\d{0,8}) /n
      COUNT_BEGUN = /\G[1-9]\d{0,8}\z/n
      PRIORITY_BEGUN = /\G(?:<\d{0,3})?\z/n
      LINE_END = /[\n\0]/n.freeze
      private_constant :COUNTED, :COUNT_BEGUN, :PRIORITY_BEGUN, :LINE_END

      def initialize(limit, framing)
        raise ArgumentError, "framing: one of #{FRAMINGS.join(", ")}, not #{framing.inspect}" unless FRAMINGS.include?(framing)

        @limit, @framing = limit, framing
        @lines = Lines.new(limit, LogOracle::Syslog, ends: framing == :zero ? "\0" : LINE_END)
        @skip = @overlong = 0
      end

      def overlong
        @overlong + @lines.overlong
      end

      def cut(bytes, position)
        return if position == bytes.bytesize
        return skip(bytes, position) if @skip.positive?
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
        return :line if %i[lines zero].include?(@framing)
        return if COUNT_BEGUN.match?(bytes, position)

        match = COUNTED.match(bytes, position)
        return match ? [match.end(0), match[1].to_i] : Wire::MALFORMED if @framing == :octet_counting
        return :line unless match

        # A line may begin with a number, too.
        priority = bytes.match(/\G<(\d{1,3})>/n, match.end(0))
        return [match.end(0), match[1].to_i] if priority && priority[1].to_i < 192

        PRIORITY_BEGUN.match?(bytes, match.end(0)) ? nil : :line
      end

      def skip(bytes, position)
        taken = [@skip, bytes.bytesize - position].min
        @skip -= taken
        [position + taken]
      end

      def cut_counted(bytes, start, length)
        taken = [length, @limit].min
        return if bytes.bytesize - start < taken

        @skip = length - taken
        @overlong += 1 if length > taken
        message = LogOracle::Syslog.message(bytes.byteslice(start, taken))
        message ? [start + taken, message.service, message.severity, message.text, nil, message.time_us, message] : [start + taken]
      end
    end
  end
end
