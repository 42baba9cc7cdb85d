# frozen_string_literal: true

# Makes a message of a JSON object, for the ingest. Other lines become messages unchanged: a
# crashing program's last words must not be lost.

require "json"

module Gyre
  module Log
    # Service, severity and message come from the first listed field with a text or number; other
    # fields follow the message as JSON.
    module JSONLines
      BYTES_LIMIT = 1 << 20
      SERVICE = %w[service app program].freeze
      SEVERITY = %w[severity level].freeze
      MESSAGE = %w[message msg].freeze
      SEVERITIES = {
        "trace" => "debug", "notice" => "info", "information" => "info", "warning" => "warn", "err" => "error",
        "critical" => "fatal", "crit" => "fatal", "alert" => "fatal", "emerg" => "fatal", "emergency" => "fatal", "panic" => "fatal"
      }.freeze
      # A line with more digits in one number becomes a message unparsed.
      DIGITS_LIMIT = 1000
      # The last of several equal keys counts; newer versions of the library would warn.
      OPTIONS = { allow_duplicate_key: true }.freeze
      SOME_DIGITS = /\d{20}/.freeze
      # Also matches an unclosed quotation mark: the search visits each byte once.
      STRING = /"(?:[^"\\]++|\\.?)*+(?:"|\z)/m.freeze

      class << self
        # Returns service, severity and message, BINARY; nil for an empty line.
        def parse(line)
          text = line.dup.force_encoding(Encoding::UTF_8).scrub.strip
          return if text.empty?
          return as_it_is(line) if long_number?(text)

          fields = JSON.parse(text, **OPTIONS)
          fields.is_a?(Hash) ? object(fields) : as_it_is(line)
        rescue StandardError # whatever the library raises: for what it reads and cannot write (1e999, half a surrogate pair), too
          as_it_is(line)
        end

        private

        # True if a number has too many digits: reading and writing it takes quadratic time.
        def long_number?(text)
          return false unless SOME_DIGITS.match?(text)

          text.gsub(STRING, " ").split(/\D+/).any? { |digits| digits.size > DIGITS_LIMIT }
        end

        def as_it_is(line) = ["json".b, "info".b, line.b.chomp]

        def object(fields)
          service = take(fields, SERVICE) || "json"
          severity = take(fields, SEVERITY)
          [text(service).b, severity(severity).b, message(fields).b]
        end

        # Half a surrogate pair would become invalid UTF-8.
        def text(value) = value.to_s.scrub

        def take(fields, names)
          name = names.find { |candidate| fields[candidate].is_a?(String) || fields[candidate].is_a?(Numeric) }
          fields.delete(name) if name
        end

        def severity(value)
          return "info" if value.nil?

          text(value).downcase.then { |name| SEVERITIES.fetch(name, name) }
        end

        def message(fields)
          name = MESSAGE.find { |candidate| fields.key?(candidate) }
          value = name && fields.delete(name)
          text = value.is_a?(String) || value.nil? ? text(value) : JSON.generate(value)
          return text if fields.empty?

          text.empty? ? JSON.generate(fields) : "#{text} #{JSON.generate(fields)}"
        end
      end
    end

    # Decodes lines of JSON for Gyre::Log::Ingest#decoder. C cuts, limits and counts lines
    # (ext/gyre/log/log_decoder.c); this class parses each with the json library.
    class JSONDecoder
      attr_reader :messages

      def initialize(lines)
        @lines = lines
        @messages = 0
      end

      def bytesize = @lines.bytesize

      def feed(bytes, time_ns) = @lines.feed(bytes, time_ns).tap { deliver(time_ns) }

      def finish(time_ns) = @lines.finish(time_ns).tap { deliver(time_ns) }

      private

      def deliver(time_ns)
        @lines.take_lines&.each_line("\n", chomp: true) do |line|
          service, severity, message = JSONLines.parse(line)
          next unless service

          @messages += 1
          @lines.deliver(service, severity, message, time_ns)
        end
      end
    end
  end
end
