# frozen_string_literal: true

# The types of settings: how a value is written and read. Each Settings::Row has one; parts add
# their own (folders, addresses of TLS). A type opens nothing.

require "gyre/net/endpoint"
require "gyre/settings/units"

module Gyre
  class Settings
    # One type. The block takes a value or its text, and returns nil for an invalid one, or raises
    # ArgumentError with more than `expected`.
    class Type
      # Bounds of times.
      ABOVE_ZERO = (Float::MIN..).freeze

      # The value's name in help (nil: the flag takes no value), and its name in messages and the
      # guide.
      attr_reader :argument, :expected
      # The unit of numbers, and their usual bounds.
      attr_reader :unit, :range

      # Takes a Symbol of TYPES, the allowed words, or a Type.
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

      # `expected` lists words.
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
