# frozen_string_literal: true

# Tables of limits: every size, count and time that bounds a server, with names, defaults and what
# they mean. Gyre::HTTP::Limits and Gyre::Log::Limits are made here; servers read an object of those
# when they start; command lines, configurations and docs are made from its TABLE. It enforces
# nothing by itself.

require "gyre/net/units"

module Gyre
  # The limits of one server, frozen: a reader for each row of its table.
  #
  #   Gyre::HTTP::Limits.new(body_bytes_limit: 1 << 20).body_bytes_limit # => 1048576
  class Limits
    # One row: its name as a Symbol, its default, :bytes, :count or :seconds, one line that says
    # what it bounds, the status that is answered beyond it (nil: none) and the smallest size or
    # count.
    Row = Struct.new(:name, :default, :unit, :meaning, :status, :minimum) do
      # @param value [Object]
      # @return [Integer, Float, nil] the value
      # @raise [ArgumentError] when the value is not one for this row
      def check(value)
        return value if value.nil? && unit == :seconds
        return value if unit == :seconds ? seconds?(value) : value.is_a?(Integer) && value >= minimum

        raise ArgumentError, "#{name} must be #{expected}, got #{value.inspect}"
      end

      # Reads a value of a flag or a configuration.
      #
      # @param value [Object] a number, or a text: 64k, 10M, 1.5, 2 minutes, none
      # @return [Integer, Float, nil]
      # @raise [ArgumentError] the message does not name the limit
      def read(value)
        check(convert(value))
      rescue ArgumentError
        raise ArgumentError, "must be #{expected_text}, not #{value.inspect[0, 80]}"
      end

      # @return [String] its default as people read it
      def default_text = default.nil? ? "none" : default.to_s

      # @return [String] its name in flags and configurations: a time without its unit
      def word = name.to_s.delete_suffix("_s")

      # @return [String] its name as a flag
      def flag = "--#{word.tr("_", "-")}"

      private

      def convert(value)
        return Units.bytes(value) if unit == :bytes
        return Units.number(value) if unit == :count

        value == "none" || value.nil? ? nil : Units.seconds(value) || false
      end

      def expected_text
        case unit
        when :seconds then "a number of seconds above 0, or none"
        when :bytes   then "a number of bytes like 500, 64k or 10M#{", at least #{minimum}" if minimum > 1}"
        else "a whole number, at least #{minimum}"
        end
      end

      def seconds?(value) = value.is_a?(Numeric) && value.real? && value.positive?

      def expected
        unit == :seconds ? "a positive number of seconds, or nil for no limit" : "an Integer of at least #{minimum}"
      end
    end

    # @param rows [Array<Row>]
    # @return [Class] with these as its TABLE
    def self.with_table(*rows)
      Class.new(self) do
        const_set(:TABLE, rows.freeze)
        rows.each { |row| attr_reader row.name }
      end
    end

    # @param name [Symbol, String] with or without the unit of a time
    # @return [Row, nil]
    def self.find(name)
      self::TABLE.find { |row| row.name.to_s == name.to_s || row.word == name.to_s }
    end

    # @return [Row]
    def self.row(name, default, unit, meaning, status: nil, minimum: 1)
      Row.new(name, default, unit, meaning, status, minimum).freeze
    end

    # @param overrides [Hash{Symbol => Numeric, nil}] by the names in TABLE; nil for a time means no
    #   limit
    # @raise [ArgumentError] for an unknown name or a value that is none
    def initialize(**overrides)
      unknown = overrides.keys - table.map(&:name)
      raise ArgumentError, "unknown limit #{unknown.first}; known: #{table.map(&:name).join(", ")}" unless unknown.empty?

      table.each { |row| instance_variable_set(:"@#{row.name}", row.check(overrides.fetch(row.name, row.default))) }
      freeze
    end

    # @param overrides [Hash{Symbol => Numeric, nil}]
    # @return [Limits] a copy with some values replaced
    def with(**overrides) = self.class.new(**to_h, **overrides)

    # @return [Hash{Symbol => Numeric, nil}] all names and values
    def to_h
      table.to_h { |row| [row.name, public_send(row.name)] }
    end

    private

    def table = self.class::TABLE
  end
end
