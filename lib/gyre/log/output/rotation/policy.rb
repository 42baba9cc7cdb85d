# frozen_string_literal: true

# The configuration of rotation, checked. Made by Rotation.from. It opens no file.

require "gyre/net/units"

module Gyre
  module Log
    class Rotation
      # size: bytes or nil; every: seconds or nil; keep: a number of files or nil for all; compress:
      # :gzip or nil; naming: :number or :time.
      Policy = Struct.new(:size, :every, :keep, :compress, :naming, keyword_init: true) do
        # @param settings [Hash] size ("100 MB", bytes), every ("day", "hour", "week", seconds),
        #   keep (30), compress ("gzip", true, false), naming ("number", "time")
        # @param key [String] for messages
        # @return [Policy]
        # @raise [ArgumentError]
        def self.parse(settings, key)
          raise ArgumentError, "#{key} must be a table, such as {size: 100 MB, keep: 10}" unless settings.is_a?(Hash)

          settings = { keep: 30, naming: :number }.merge(settings.transform_keys(&:to_sym)).compact
          unknown = settings.keys - self::READERS.keys
          raise ArgumentError, "#{key}: #{unknown.join(", ")} is unknown; it has #{self::READERS.keys.join(", ")}" if unknown.any?

          made = new(**settings.to_h { |name, value| [name, read(name, value, key)] })
          made.size || made.every ? made : raise(ArgumentError, "#{key}: set size, every, or both")
        end

        def self.read(name, value, key)
          expected, reader = self::READERS.fetch(name)
          read = reader.call(value)
          read.nil? ? raise(ArgumentError, "#{key}.#{name}: #{value.inspect} is #{expected}") : read || nil
        end
        private_class_method :read
      end

      # Each word's expectation, for messages, and what reads it: nil is wrong, false means nil.
      Policy::READERS = {
        size: ["no size; write 100 MB or a number of bytes", ->(value) { Units.bytes(value)&.then { |size| size if size.positive? } }],
        every: ["no period; write minute, hour, day, week, some of them (2 days) or seconds", ->(value) { Units.seconds(value)&.nonzero? }],
        keep: ["no number of files", ->(value) { value if value.is_a?(Integer) && value.positive? }],
        compress: ["unknown; it is gzip or none",
                   { "gzip" => :gzip, "gz" => :gzip, "true" => :gzip, "none" => false, "false" => false, "" => false }
                     .then { |names| ->(value) { names[value.to_s.downcase] } }],
        naming: ["unknown; it is number or time", ->(value) { %i[number time].find { |name| name.to_s == value.to_s } }]
      }.freeze
    end
  end
end
