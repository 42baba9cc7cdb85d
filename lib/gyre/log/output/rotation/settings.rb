# frozen_string_literal: true

# What the configuration says about rotation, checked. Made by Rotation.from. It knows no files.

require "gyre/net/units"

module Gyre
  module Log
    class Rotation
      # size: bytes or nil; every: seconds or nil; keep: a number of files or nil for all; compress: :gzip, :zstd or nil; naming:
      # :number or :time.
      Settings = Struct.new(:size, :every, :keep, :compress, :naming, keyword_init: true) do
        # @param settings [Hash] size ("100 MB", bytes), every ("day", "hour", "week", seconds), keep (30), compress ("gzip",
        #   "zstd", true for gzip, false), naming ("number", "time")
        # @param key [String] for messages
        # @return [Settings]
        # @raise [ArgumentError]
        def self.parse(settings, key)
          raise ArgumentError, "#{key} must be a table, such as {size: 100 MB, keep: 10}" unless settings.is_a?(Hash)

          settings = settings.to_h { |name, value| [name.to_sym, value] }
          unknown = settings.keys - self::WORDS
          raise ArgumentError, "#{key}: #{unknown.join(", ")} is unknown; it has #{self::WORDS.join(", ")}" if unknown.any?

          new(size: bytes(settings[:size], key), every: seconds(settings[:every], key), keep: keep(settings, key),
              compress: compress(settings[:compress], key), naming: naming(settings[:naming], key)).tap do |made|
            raise ArgumentError, "#{key}: say size, every, or both" unless made.size || made.every
          end
        end

        def self.bytes(value, key)
          return unless value

          size = Units.bytes(value)
          size&.positive? ? size : raise(ArgumentError, "#{key}.size: #{value.inspect} is no size; write 100 MB or a number of bytes")
        end

        def self.seconds(value, key)
          return unless value

          Units.period(value) ||
            raise(ArgumentError, "#{key}.every: #{value.inspect} is no period; write minute, hour, day, week, some of them (2 days) or seconds")
        end

        def self.keep(settings, key)
          value = settings.fetch(:keep, self::KEEP)
          return value if value.nil? || (value.is_a?(Integer) && value.positive?)

          raise ArgumentError, "#{key}.keep: #{value.inspect} is no number of files"
        end

        def self.compress(value, key)
          case value.to_s.downcase
          when "", "false", "none" then nil
          when "true", "gzip", "gz" then :gzip
          when "zstd", "zst" then Packing.zstd ? :zstd : raise(ArgumentError, "#{key}.compress: zstd is not installed")
          else raise ArgumentError, "#{key}.compress: #{value.inspect} is unknown; it is gzip, zstd or none"
          end
        end

        def self.naming(value, key)
          name = (value || :number).to_sym
          return name if %i[number time].include?(name)

          raise ArgumentError, "#{key}.naming: #{value.inspect} is unknown; it is number or time"
        end

        private_class_method :bytes, :seconds, :keep, :compress, :naming
      end

      Settings::WORDS = %i[size every keep compress naming].freeze
      # Files kept when nothing is said.
      Settings::KEEP = 30
    end
  end
end
