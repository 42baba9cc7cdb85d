# frozen_string_literal: true

# Colours text for a terminal, and makes control characters harmless.

module Gyre
  module CLI
    class Paint
      CODES = { bold: "1", dim: "2", red: "31", green: "32", yellow: "33", blue: "34", magenta: "35", cyan: "36", alarm: "1;37;41" }.freeze
      SEVERITIES = { "debug" => :dim, "info" => :green, "warn" => :yellow, "error" => :red, "fatal" => :alarm }.freeze
      # Characters that move the cursor, ring the bell or change later text: C0 (without the tab),
      # DEL, C1 and marks of text direction.
      HARMFUL = /[\u0000-\u0008\u000a-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/.freeze
      ESCAPES = { "\n" => "\\n", "\r" => "\\r", "\e" => "\\e" }.freeze

      class << self
        # Escapes control characters; invalid bytes become question marks.
        def harmless(text) = readable(text).gsub(HARMFUL) { |char| ESCAPES.fetch(char) { format("\\x%02x", char.ord) } }

        # The same for a text of several lines, which stay.
        def harmless_lines(text) = readable(text).split("\n", -1).map { |line| harmless(line) }.join("\n")

        # The same for JSON, where such characters stand in strings only.
        def harmless_json(json) = json.gsub(HARMFUL) { |char| format("\\u%04x", char.ord) }

        private

        def readable(text)
          text = text.dup.force_encoding(Encoding::UTF_8) if [Encoding::BINARY, Encoding::US_ASCII].include?(text.encoding)
          text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace, replace: "?").scrub("?")
        end
      end

      # By https://no-color.org.
      def self.for(out) = new(out.tty? && ENV["NO_COLOR"].to_s.empty? && ENV["TERM"] != "dumb")

      def initialize(colours)
        @colours = colours
      end

      def call(text, colour) = @colours && colour ? "\e[#{CODES.fetch(colour)}m#{text}\e[0m" : text

      def severity(severity) = SEVERITIES[severity]

      # See {Paint.harmless}.
      def harmless(text) = Paint.harmless(text)
    end
  end
end
