# frozen_string_literal: true

# Converts a JSON object to a message, for the ingest. Other lines become messages unchanged, so
# that the last output of a crashing program is not lost.

require "json"
require "time"

module Gyre
  module Log
    # Service and severity come from the first listed field that is a String or a number, the
    # message from the first listed field that exists. Other fields follow the message as JSON.
    # ECS and OpenTelemetry have names with a dot.
    module JSONLines
      BYTES_LIMIT = 1 << 20
      SERVICE = %w[service app program service.name].freeze
      SEVERITY = %w[severity level log.level].freeze
      TIME = "@timestamp"
      MESSAGE = %w[message msg].freeze
      SEVERITIES = {
        "trace" => "debug", "notice" => "info", "information" => "info", "warning" => "warn", "err" => "error",
        "critical" => "fatal", "crit" => "fatal", "alert" => "fatal", "emerg" => "fatal", "emergency" => "fatal", "panic" => "fatal"
      }.freeze
      # Maximum digits of a number. A line with a longer number becomes a message unchanged.
      DIGITS_LIMIT = 1000
      # Uses the last of several equal keys. Newer versions of the library would otherwise warn.
      OPTIONS = { allow_duplicate_key: true }.freeze
      SOME_DIGITS = /\d{20}/.freeze
      # Matches a string, even if it is not closed, so that the search visits each byte once.
      STRING = /"(?:[^"\\]++|\\.?)*+(?:"|\z)/m.freeze

      class << self
        # Returns service, severity and message as BINARY Strings, and the time of logging in µs
        # since 1970 if the line has it; nil for an empty line.
        def parse(line)
          text = line.dup.force_encoding(Encoding::UTF_8).scrub.strip
          return if text.empty?
          return as_it_is(line) if long_number?(text)

          fields = JSON.parse(text, **OPTIONS)
          fields.is_a?(Hash) ? object(fields) : as_it_is(line)
        rescue StandardError # the library reads, but cannot write 1e999 or half a surrogate pair
          as_it_is(line)
        end

        private

        # True if a number has too many digits, which take quadratic time to read and write.
        def long_number?(text)
          return false unless SOME_DIGITS.match?(text)

          text.gsub(STRING, " ").split(/\D+/).any? { |digits| digits.size > DIGITS_LIMIT }
        end

        def as_it_is(line) = ["json".b, "info".b, line.b.chomp]

        def object(fields)
          service = take(fields, SERVICE) || "json"
          severity = take(fields, SEVERITY)
          time_us = time_us(fields[TIME])
          fields.delete(TIME) if time_us
          [text(service).b, severity(severity).b, message(fields).b, *time_us]
        end

        def time_us(value)
          time = Time.iso8601(value) if value.is_a?(String)
          (time.to_i * 1_000_000) + time.usec if time&.to_i&.positive?
        rescue ArgumentError
          nil
        end

        # Replaces half of a surrogate pair, which is invalid UTF-8.
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
    # (ext/gyre/log/log_decoder.c); this class parses each line with the json library.
    class JSONDecoder
      attr_reader :messages

      def initialize(lines)
        @lines = lines
        @messages = 0
      end

      def bytesize = @lines.bytesize

      def overlong = @lines.overlong

      def feed(bytes, time_ns) = @lines.feed(bytes, time_ns).tap { deliver(time_ns) }

      def finish(time_ns) = @lines.finish(time_ns).tap { deliver(time_ns) }

      private

      def deliver(time_ns)
        @lines.take_lines&.each_line("\n", chomp: true) do |line|
          service, severity, message, time_us = JSONLines.parse(line)
          next unless service

          @messages += 1
          @lines.deliver(service, severity, message, time_ns, time_us)
        end
      end
    end
  end
end
