# frozen_string_literal: true

# A finished line of text, taken apart again: time, service, severity and the message as it was
# logged. For readers of the log: `gyre log tail`, and pages that follow it. It reads no file and
# writes none.

require "json"
require "time"

module Gyre
  module Log
    # One line of the log. All Strings are UTF-8; bytes that are none became U+FFFD.
    #
    #   entry = Gyre::Log::Entry.parse("2026/11/21 19:20:00|web|info|two\\nlines")
    #   entry.message # => "two\nlines"
    Entry = Struct.new(:time, :service, :severity, :message) do
      # @param line [String] with or without its line end
      # @return [Entry, nil] nil for what has no time, service and severity
      def self.parse(line)
        text = line.chomp.dup.force_encoding(Encoding::UTF_8).scrub("\u{fffd}")
        time, service, severity, message = text.split("|", 4)
        new(time, *[service, severity, message].map { |field| unescape(field) }) if message
      end

      # @return [String] what an escaped field was
      def self.unescape(text)
        return text unless text.include?("\\")

        text.gsub(/\\(?:x(\h\h)|u(\h{4})|([nr\\]))/) do
          next { "n" => "\n", "r" => "\r", "\\" => "\\" }.fetch($3) if $3

          $1 && $1.hex > 0x7f ? "\u{fffd}" : [($1 || $2).hex].pack("U") # such a byte alone is no character
        end
      end

      # @return [String] one line, with the time as RFC 3339 has it
      def to_json(*)
        JSON.generate("time" => rfc3339, "service" => service, "severity" => severity, "message" => message)
      end

      private

      # The line's time is this machine's, if its zone is the server's.
      def rfc3339
        Time.strptime(time, "%Y/%m/%d %H:%M:%S").iso8601
      rescue ArgumentError
        time
      end
    end
  end
end
