# frozen_string_literal: true

# Syslog's messages: RFC 5424 and RFC 3164 as service, severity and message. Called by the oracle's
# ingest; the log itself has this in ext/gyre/log/log_syslog.c. Where messages begin and end on a
# stream is the framing's knowledge. It keeps nothing.
#
#   <34>1 2026-11-21T19:20:00Z web su 123 ID47 [a b="c"] failed    service su, severity fatal: host=web pid=123 id=ID47 [a b="c"] failed
#   <34>Nov 21 19:20:00 web su[123]: failed                        service su, severity fatal: host=web pid=123 failed
#
# What fits neither grammar is a message of the service syslog, as it came.

module LogOracle
  # Pure functions on BINARY Strings.
  module Syslog
    # The usual limit of a message.
    BYTES_LIMIT = 1 << 16
    # By the last three bits of the priority, RFC 5424, section 6.2.1.
    SEVERITIES = %w[fatal fatal fatal error warn info info debug].map { |name| name.b.freeze }.freeze
    SERVICE = "syslog".b.freeze
    # RFC 3164, section 4.3.3: of a message without one.
    PRIORITY = 13
    PRIORITIES = 192

    PRI = /\A<(\d{1,3})>/n
    # RFC 5424, section 6: version, time, host, name, process, message id, structured data.
    HEADER = /\G1\ ([^ ]+)\ ([^ ]+)\ ([^ ]+)\ ([^ ]+)\ ([^ ]+)\ (-|(?:\[(?>(?:[^"\]]|"(?:\\.|[^"\\])*")*)\])+)(?:\ |\z)/mnx
    BOM = "\xEF\xBB\xBF".b.freeze
    TIME = /\G(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:Z|([+-])(\d\d):(\d\d))(?: |\z)/n
    # RFC 3164, section 4.1.2 and 4.1.3.
    OLD_TIME = /\G(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d /n
    TAG = /\G([^\[\]: ]+)(?:\[([^\] ]*)\]:?|:)(?: |\z)/n
    HOST = /\G([^ ]+)(?: |\z)/n
    private_constant :PRI, :HEADER, :BOM, :TIME, :OLD_TIME, :TAG, :HOST

    class << self
      def parse(bytes)
        last = bytes.rindex(/[^\r\n\0]/n) or return

        bytes = bytes.byteslice(0, last + 1)
        priority = PRI.match(bytes)
        priority = nil if priority && priority[1].to_i >= PRIORITIES
        return [SERVICE, SEVERITIES[PRIORITY & 7], bytes, nil] unless priority

        service, message, time_us = parse_5424(bytes, priority.end(0)) || parse_3164(bytes, priority.end(0))
        [service, SEVERITIES[priority[1].to_i & 7], message, time_us]
      end

      private

      def parse_5424(bytes, position)
        header = HEADER.match(bytes, position) or return

        _, time, host, name, process, id, data = header.to_a
        message = header.post_match.delete_prefix(BOM)
        before = { "host=" => host, "pid=" => process, "id=" => id, "" => data }
        [name == "-" ? SERVICE : name, put_before(message, before.reject { |_, word| word == "-" }), time_us(TIME.match(time))]
      end

      # What is not there is not missed.
      def parse_3164(bytes, position)
        old = OLD_TIME.match(bytes, position)
        time = TIME.match(bytes, position) unless old
        time_us = time_us(time) if time && time.to_s.end_with?(" ")
        stop = old || (time if time_us)
        position = stop.end(0) if stop
        tag = TAG.match(bytes, position)
        host = HOST.match(bytes, position) if stop && !tag
        tag = TAG.match(bytes, position = host.end(0)) if host
        message = bytes.byteslice(tag ? tag.end(0) : position, bytes.bytesize)
        [tag ? tag[1] : SERVICE, put_before(message, "host=" => host && host[1], "pid=" => tag && tag[2]), time_us]
      end

      def put_before(message, words)
        parts = words.map { |name, word| "#{name}#{word}".b unless word.to_s.empty? }.compact
        parts << message unless message.empty? && parts.any?
        parts.join(" ").b
      end

      # Microseconds since 1970; nil when it is none, or before that.
      def time_us(match)
        return unless match

        year, month, day, hour, minute, second = match.to_a[1, 6].map(&:to_i)
        return if month.zero? || month > 12 || day.zero? || day > 31 || hour > 23 || minute > 59 || second > 59

        offset = (match[9].to_i * 60 + match[10].to_i) * 60 * (match[8] == "-" ? -1 : 1)
        seconds = Time.utc(year, month, day, hour, minute, second).to_i - offset
        seconds * 1_000_000 + match[7].to_s.ljust(6, "0").to_i unless seconds.negative?
      end
    end
  end
end
