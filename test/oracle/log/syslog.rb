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

    FACILITIES = (%w[kern user mail daemon auth syslog lpr news uucp cron authpriv ftp ntp audit alert clock] +
                  (0..7).map { |number| "local#{number}" }).map { |name| name.b.freeze }.freeze

    PRI = /\A<(\d{1,3})>/n
    # RFC 5424, section 6: version, time, host, name, process, message id, structured data.
    HEADER = /\G1\ ([^ ]+)\ ([^ ]+)\ ([^ ]+)\ ([^ ]+)\ ([^ ]+)\ (-|(?:\[(?>(?:[^"\]]|"(?:\\.|[^"\\])*")*)\])+)(?:\ |\z)/mnx
    # Without structured data, which Heroku's senders leave out.
    BARE_HEADER = /\G1\ ([^ ]+)\ ([^ ]+)\ ([^ ]+)\ ([^ ]+)\ ([^ ]+)\ (?=[^\[])/mnx
    BOM = "\xEF\xBB\xBF".b.freeze
    TIME = /\G(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:Z|([+-])(\d\d):(\d\d))(?: |\z)/n
    ISO_TIME = /\G\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^ ]* /n
    # RFC 3164, section 4.1.2 and 4.1.3, and what devices make of it.
    OLD_TIME = /\G(?:\d{4}\ )?(?i:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\ \ ?\d\d?(?:\ \d{4})?\ \d\d:\d\d:\d\d(?:\.\d*)?
                (?:\ [A-Z]*(?=:\ %))?:?(?:\ |\z)/nx
    TAG = %r{\G(?=[^ :\[]*[a-zA-Z])([\w./()-]+)(?:\[([^\] ]*)\](?:(?=[ ]|\z)|:(?![/\\:]))|:(?![/\\:]))(?: |)}n
    HOST = /\G([\w.:-]*[a-zA-Z0-9])(?: |\z)/n
    CISCO = /\G(?:(\d*):)?\ *(?:([\w.-]*[a-zA-Z0-9]):\ )?/n
    private_constant :PRI, :HEADER, :BARE_HEADER, :BOM, :TIME, :ISO_TIME, :OLD_TIME, :TAG, :HOST, :CISCO

    # `host`, `process` and `facility` are nil if they are unknown.
    Message = Struct.new(:service, :severity, :text, :time_us, :host, :process, :facility)

    class << self
      # Returns service, severity, the message with what stands before it, and its time.
      def parse(bytes)
        message = message(bytes) or return
        before = { "host=" => message.host, "pid=" => message.process }
        [message.service, message.severity, put_before(message.text, before), message.time_us]
      end

      # Returns a Message, or nil for an empty one.
      def message(bytes)
        last = bytes.rindex(/[^\r\n\0]/n) or return

        bytes = bytes.byteslice(0, last + 1)
        match = PRI.match(bytes)
        match = nil if match && match[1].to_i >= PRIORITIES
        priority = match ? match[1].to_i : PRIORITY
        message = Message.new(SERVICE, SEVERITIES[priority & 7], bytes, nil, nil, nil, FACILITIES[priority >> 3])
        match ? parse_5424(bytes, match.end(0), message) || parse_3164(bytes, match.end(0), message) : parse_bare(bytes, message)
      end

      private

      def parse_5424(bytes, position, message)
        time_us = (time = bytes.index(" ", position)) && time_us(TIME.match(bytes, time + 1))
        header = HEADER.match(bytes, position) || (BARE_HEADER.match(bytes, position) if time_us)
        return unless header

        _, _, host, name, process, id, data = header.to_a.map { |word| word unless word == "-" }
        name = [name.delete_suffix(":"), name].find { |each| !each.empty? }.then { |each| each unless each == "-" } if name
        text = put_before(header.post_match.delete_prefix(BOM), "id=" => id, "" => data)
        message.service = name if name
        message.text, message.time_us, message.host, message.process = text, time_us, host, process
        message
      end

      # Without a priority: a message only if it has a time and a tag.
      def parse_bare(bytes, message)
        parsed = parse_3164(bytes, 0, message.dup)
        timed = time_end(bytes, 0)
        timed && parsed.service != SERVICE ? parsed : message
      end

      # What is not there is not missed.
      def parse_3164(bytes, position, message)
        message.text = bytes.byteslice(position, bytes.bytesize)
        stop, message.time_us = time_end(bytes, position)
        position = stop if stop
        position = cisco(bytes, position, message) unless stop
        tag = TAG.match(bytes, position)
        host = HOST.match(bytes, position) if stop && !tag
        host = nil if host && host[1].count(":").between?(1, 2) && !host[1].include?("::")
        if host
          message.host = host[1]
          position = host.end(0)
          position += 2 if bytes.byteslice(position, 3) == ": %"
          tag = TAG.match(bytes, position)
        end
        message.service, message.process = tag[1], tag[2] if tag
        position = tag.end(0) if tag
        id = message.text if message.text.is_a?(Array)
        message.text = put_before(bytes.byteslice(position, bytes.bytesize), "id=" => id&.first)
        message
      end

      # Returns where a time ends, and the time if it has a zone.
      def time_end(bytes, position)
        position += bytes.byteslice(position, bytes.bytesize)[/\A */n].bytesize
        old = OLD_TIME.match(bytes, position)
        return [old.end(0), nil] if old

        iso = ISO_TIME.match(bytes, position) or return
        [iso.end(0), time_us(TIME.match(bytes, position))]
      end

      # Passes what stands before "%SYS-5-CONFIG_I: …": a counter, a host and a time.
      def cisco(bytes, position, message)
        match = CISCO.match(bytes, position)
        [2, 1].each do |group|
          at = group == 2 ? (match.end(0) if match[2]) : bytes.index(/[^ ]|\z/n, match[1] ? match.end(1) + 1 : position)
          next if at.nil? || (group == 2 && match[1].to_s.empty? && bytes[at] == "%")

          at += 1 if "*.".include?(bytes[at] || "-")
          at = OLD_TIME.match(bytes, at)&.end(0) || at
          next unless bytes[at] == "%" && at > position

          message.text = [match[1]]
          message.host = match[2] if group == 2
          return at
        end
        position
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
        seconds * 1_000_000 + match[7].to_s[0, 6].ljust(6, "0").to_i unless seconds.negative?
      end
    end
  end
end
