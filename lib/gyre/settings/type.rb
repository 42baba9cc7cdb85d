# frozen_string_literal: true

# Types of settings: how values are written and read. Parts add their own.

require "gyre/net/endpoint"
require "gyre/settings/units"

module Gyre
  class Settings
    # The block takes a value or text, and returns nil if invalid, or raises ArgumentError with more
    # than `expected`.
    class Type
      # For times.
      ABOVE_ZERO = (Float::MIN..).freeze

      # The value in help (nil: no value), and in messages and the guide.
      attr_reader :argument, :expected
      # Numbers' unit and usual bounds.
      attr_reader :unit, :range

      # Takes a Symbol of TYPES, words, or a Type.
      def self.of(type)
        return TYPES.fetch(type) if type.is_a?(Symbol)
        return type unless type.is_a?(Array)

        words = type.map(&:-@).freeze
        new("NAME", Settings.list(words), choice: true) { |value| words.find { |word| word == value.to_s.downcase } }
      end

      def initialize(argument, expected, unit: nil, range: nil, choice: false, &read)
        @argument = argument
        @expected = expected
        @unit = unit
        @range = range
        @choice = choice
        @read = read
        freeze
      end

      def read(value) = @read.call(value)

      def choice? = @choice

      BOOLEANS = { true => true, false => false, "true" => true, "false" => false }.freeze
      TEXT = ->(value) { value if value.is_a?(String) && !value.empty? }
      SECONDS = "a time like 1.5 or \"2 minutes\""
      private_constant :BOOLEANS, :TEXT, :SECONDS

      TYPES = Ractor.make_shareable({
        text: new("TEXT", "text", &TEXT),
        file: new("FILE", "a path") { |value| TEXT.call(value.respond_to?(:to_path) ? value.to_path : value) },
        flag: new(nil, "true or false") { |value| BOOLEANS[value] },
        bytes: new("BYTES", "a number of bytes like 500, 64k or 10M", unit: :bytes, range: 1..) { |value| Units.bytes(value) },
        count: new("COUNT", "a whole number", range: 1..) { |value| Units.integer(value) },
        seconds: new("SECONDS", SECONDS, unit: :seconds, range: ABOVE_ZERO) { |value| Units.seconds(value) },
        timeout: new("SECONDS", SECONDS, unit: :seconds, range: ABOVE_ZERO) { |value| Units.seconds(value) },
        port: new("PORT", "a port", range: 0..65_535) { |value| Units.integer(value) },
        address: new("ADDRESS", "an address") { |value| Endpoint.parse(value) && value },
        any: new("VALUE", "an object") { |value| value }
      })
    end
  end
end
