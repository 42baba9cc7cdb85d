# frozen_string_literal: true

# Decodes lines of JSON for Gyre::Log::Ingest#decoder. C cuts, limits and counts lines
# (ext/gyre/log/log_decoder.c); this class parses each with the json library.

require "gyre/log/ingest/json_lines"

module Gyre
  module Log
    class JSONDecoder
      attr_reader :messages

      def initialize(lines)
        @lines = lines
        @messages = 0
      end

      def bytesize = @lines.bytesize

      # The incomplete line, which another decoder may continue.
      def rest = @lines.rest

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
