# frozen_string_literal: true

# A row of a table of settings: defines a flag, word, keyword, check and line of the guide.

require "gyre/net/endpoint"
require "gyre/settings/units"

module Gyre
  class Settings
    # `name`: the keyword; `meaning`: one sentence; `usual`: describes a computed default; `range`:
    # bounds of the value; `list`: whether the setting may be repeated; `also`: other names;
    # `short`: the short flag; `argument`: the value's name in --help; `status`: HTTP status if the
    # limit is exceeded; `secret`: messages hide the value.
    Row = Struct.new(:name, :type, :meaning, :default, :usual, :range, :list, :also, :short, :argument, :status, :secret,
                     keyword_init: true) do
      def initialize(name:, type:, meaning:, **rest)
        super(range: nil, also: [], **rest, name: name, type: type.is_a?(Settings) ? type : Type.of(type), meaning: meaning)
        self.range ||= section? ? nil : self.type.range
        self.argument ||= self.type.argument unless section?
        freeze
      end

      # False for a String with an invalid encoding or a NUL, which no setting may have.
      def self.plain?(value) = !value.is_a?(String) || (value.encoding.ascii_compatible? && value.valid_encoding? && !value.include?("\0"))

      # True if the value is itself a table.
      def section? = type.is_a?(Settings)

      # The name in configuration files: without the suffix _s of times.
      def word = name.to_s.delete_suffix("_s")

      def flag = "--#{word.tr("_", "-")}"

      def none?(value) = timeout? && (value.nil? || value.to_s.casecmp?("none"))

      def check(value)
        return if none?(value)
        return one(value) unless list

        return (value.is_a?(Array) ? value : [value]).map { |each| one(each) } unless section?
        raise ArgumentError, "must be a list" unless value.is_a?(Array)

        faults = Faults.new
        read = value.each_with_index.map { |each, index| faults.at("[#{index + 1}]") { one(each) } }
        faults.ensure_none(read.compact)
      end

      def boolean? = type.equal?(Type::TYPES[:flag])

      def expected
        return "keys with values" if section?

        [type.expected, bounds, ("or none" if timeout?)].compact.join(", ")
      end

      # Returns the meaning for guide and --help.
      def text
        choice = type.expected if !section? && type.unit == :words && !meaning.include?(type.expected)
        [[meaning, *choice].join(": "), ("may be repeated" if list)].compact.join("; ")
      end

      # Returns the default for guide and --help, or nil.
      def default_text
        return usual if usual
        return "none" if timeout? && default.nil?

        case default
        when nil, false, [], {} then nil
        when true then "on"
        when Array then default.join(" and ")
        when Integer then type.unit == :bytes ? Units.size(default) : default.to_s
        else default.to_s
        end
      end

      private

      def timeout? = type.equal?(Type::TYPES[:timeout])

      def one(value)
        return type.read(value) if section?

        read = (type.read(value) if type.equal?(Type::TYPES[:any]) || Row.plain?(value))
        return read unless read.nil? || (range && !range.cover?(read))

        raise ArgumentError, "must be #{expected}#{", not #{Settings.shown(value)}" unless secret || value.nil?}"
      end

      def bounds
        return unless range
        return "above 0" if range == Type::ABOVE_ZERO
        return "#{range.begin} to #{range.end}" if range.end

        "at least #{range.begin}" unless range.begin == 1 && type.unit
      end
    end

    # A type of settings: how values are written and read. The block takes a value or its text and
    # returns the checked value. If it is invalid, the block returns nil, or raises ArgumentError
    # with a text that says more than `expected`.
    class Type
      # Bounds of times.
      ABOVE_ZERO = (Float::MIN..).freeze

      # `argument`: the value's name in --help; nil: it takes no value. `expected`: the value's
      # description in messages and guide.
      attr_reader :argument, :expected
      # The unit and the usual bounds of a number.
      attr_reader :unit, :range

      # Returns the Type for a Symbol in TYPES or an Array of valid words; returns a Type as it is.
      def self.of(type)
        return TYPES.fetch(type) if type.is_a?(Symbol)
        return type unless type.is_a?(Array)

        words = type.map(&:-@).freeze
        new("NAME", Settings.list(words), unit: :words) { |value| words.find { |word| word == value.to_s.downcase } }
      end

      def initialize(argument, expected, unit: nil, range: nil, &read)
        @argument = argument
        @expected = expected
        @unit = unit
        @range = range
        @read = read
        freeze
      end

      def read(value) = @read.call(value)

      BOOLEANS = { true => true, false => false, "true" => true, "false" => false }.freeze
      TEXT = ->(value) { value if value.is_a?(String) && !value.empty? }
      SECONDS = "a time like 1.5 or \"2 minutes\""

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
