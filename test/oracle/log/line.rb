# frozen_string_literal: true

# A message as a finished line: text, JSON, or a Redis command. Called by the oracle's sinks;
# ext/gyre/log/log_line.c writes the same bytes. A line is <before><message><after>, and what stands
# before and after is the same for many messages. It keeps nothing.
#
#   text    2026/11/21 19:20:00|service|severity|message
#   json    {"time":"2026-11-21T19:20:00.123456+01:00","service":"…","severity":"…","message":"…"}, and "logged_at" for records
#   redis   XADD key * service … severity … message … time …

module LogOracle
  # Pure functions; all Strings are BINARY.
  module Line
    FORMATS = %i[text json redis].freeze

    # What stands for a control byte or a backslash in a text line. A tab is ordinary text.
    TEXT = (0..0xff).to_h { |byte| [byte.chr, format("\\x%02x", byte)] }.merge("\n" => "\\n", "\r" => "\\r", "\\" => "\\\\").freeze
    # RFC 8259, section 7.
    JSON_TEXT = (0..0x1f).to_h { |byte| [byte.chr, format("\\u%04x", byte)] }
                         .merge("\n" => "\\n", "\r" => "\\r", "\t" => "\\t", "\b" => "\\b", "\f" => "\\f", "\"" => "\\\"", "\\" => "\\\\").freeze
    TEXT_ESCAPED = /[\x00-\x08\x0a-\x1f\x7f\\]/n
    JSON_ESCAPED = /[\x00-\x1f"\\]/
    # C1, separators of lines and paragraphs, and what turns the direction of text.
    HARMFUL = /[\u0080-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/
    # Where text is not taken for UTF-8.
    C1 = /[\x80-\x9f]/n
    private_constant :HARMFUL, :C1, :TEXT, :JSON_TEXT, :TEXT_ESCAPED, :JSON_ESCAPED

    class << self
      def text(message)
        text = message.gsub(TEXT_ESCAPED, TEXT)
        return text if text.ascii_only?

        utf8(text).each_char.map { |char| char.valid_encoding? ? harmless(char) : char.b.gsub(C1, TEXT) }.join
      end

      def text_field(field)
        text(field).gsub("|", TEXT)
      end

      # Returns the inside of a JSON string; bytes that are no UTF-8 become U+FFFD.
      def json(message)
        harmless(utf8(message).scrub("\u{fffd}").gsub(JSON_ESCAPED, JSON_TEXT))
      end

      def harmless(text)
        text.gsub(HARMFUL) { |char| format("\\u%04x", char.ord) }.b
      end

      def utf8(bytes)
        bytes.dup.force_encoding(Encoding::UTF_8)
      end

      # Returns each as a bulk string of Redis's protocol.
      def bulk(*texts)
        texts.map { |text| "$#{text.bytesize}\r\n#{text}\r\n".b }.join
      end

      # What stands between the time and the message.
      def middle(format, service, severity)
        case format
        when :text then "|".b << text_field(service) << "|" << text_field(severity) << "|"
        when :json then "\",\"service\":\"".b << json(service) << "\",\"severity\":\"" << json(severity) << "\",\"message\":\""
        else bulk("service", service, "severity", severity) << "$7\r\nmessage\r\n"
        end
      end

      # The beginning of each command for a stream.
      def command(key)
        "*11\r\n".b << bulk("XADD", key.b, "*")
      end
    end
  end
end
