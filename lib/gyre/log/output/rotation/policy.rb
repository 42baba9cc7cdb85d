# frozen_string_literal: true

# The configuration of rotation, checked. Made by Rotation.from. It opens no file.

require "gyre/net/values"

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
          made = new(**settings.to_h { |name, value| [name, read(name, value, key)] })
          made.size || made.every ? made : raise(ArgumentError, "#{key}: set size, every, or both")
        end

        def self.read(name, value, key)
          case name
          when :size then Values.check(:bytes, value, name: "#{key}.size")
          when :every then Values.check(:span, value, name: "#{key}.every")
          when :keep then Values.check(:count, value, name: "#{key}.keep")
          when :compress then compression(value, name: "#{key}.compress")
          when :naming then Values.check(self::NAMINGS, value, name: "#{key}.naming").to_sym
          else raise ArgumentError, "#{key}.#{name}: there is no such key; there are: #{members.join(", ")}"
          end
        end
        private_class_method :read

        # @param value [Object]
        # @param name [String, nil] what a message calls it
        # @return [Symbol, nil]
        # @raise [ArgumentError]
        def self.compression(value, name: nil)
          return value ? :gzip : nil if [true, false].include?(value)

          :gzip if Values.check(self::COMPRESSIONS, value, name: name) == "gzip"
        end
      end

      Policy::NAMINGS = %w[number time].freeze
      Policy::COMPRESSIONS = %w[gzip none].freeze
    end
  end
end
