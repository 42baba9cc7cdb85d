# frozen_string_literal: true

# Parses a line of the log for its readers (`gyre log tail`, web pages).

require "json"
require "time"

module Gyre
  module Log
    # One line of the log. All Strings are UTF-8; invalid bytes become U+FFFD.
    #
    #   entry = Gyre::Log::Entry.parse("2026/11/21 19:20:00|web|info|two\\nlines")
    #   entry.message # => "two\nlines"
    Entry = Struct.new(:time, :service, :severity, :message) do
      # @param line [String] with or without its line end
      # @return [Entry, nil] nil unless the line has all four fields
      def self.parse(line)
        text = line.chomp.dup.force_encoding(Encoding::UTF_8).scrub("\u{fffd}")
        time, service, severity, message = text.split("|", 4)
        new(time, *[service, severity, message].map { |field| unescape(field) }) if message
      end

      # @return [String] the field without escapes
      def self.unescape(text)
        return text unless text.include?("\\")

        text.gsub(/\\(?:x(\h\h)|u(\h{4})|([nr\\]))/) do
          next { "n" => "\n", "r" => "\r", "\\" => "\\" }.fetch($3) if $3

          $1 && $1.hex > 0x7f ? "\u{fffd}" : [($1 || $2).hex].pack("U") # such a byte alone is not a character
        end
      end

      # @return [String] one line, with the time by RFC 3339
      def to_json(*) = JSON.generate("time" => rfc3339, "service" => service, "severity" => severity, "message" => message)

      private

      # Interprets the line's time as local time.
      def rfc3339
        Time.strptime(time, "%Y/%m/%d %H:%M:%S").iso8601
      rescue ArgumentError
        time
      end
    end
  end
end
