# frozen_string_literal: true

# Writes a profile in pprof's format (github.com/google/pprof, proto/profile.proto), as gzipped
# Protocol Buffers. Called by Gyre::Profile#pprof.

require "zlib"

module Gyre
  class Profile
    # @api private
    class Pprof
      # Fields of Profile, ValueType, Sample, Label, Location, Line and Function by their numbers.
      TYPES = [%w[samples count], %w[cpu nanoseconds]].freeze

      def initialize(profile, at: Time.now)
        @profile = profile
        @at = at
        @strings = { "" => 0 }
      end

      def gzip = Zlib.gzip(bytes)

      private

      def bytes
        types = TYPES.map { |pair| message(1, value_type(*pair)) }
        body = [*types, *samples, *functions, varint(9, (@at.to_f * 1e9).to_i), varint(10, (@profile.seconds * 1e9).to_i),
                message(11, value_type(*TYPES.last)), varint(12, 10_000_000)].join
        body + @strings.each_key.map { |text| message(6, text.b) }.join
      end

      def value_type(type, unit) = varint(1, string(type)) + varint(2, string(unit))

      def samples
        [].tap do |all|
          @profile.each_stack do |label, frames, *values|
            label = label ? message(3, varint(1, string("route")) + varint(2, string(label))) : ""
            all << message(2, packed(1, frames.reverse.map(&:succ)) + packed(2, values) + label)
          end
        end
      end

      # Writes each frame as a function, and as a location in it; their numbers begin at 1.
      def functions
        @profile.frames.each.with_index(1).map do |(name, path, line), id|
          message(4, varint(1, id) + message(4, varint(1, id) + varint(2, line.to_i))) +
            message(5, varint(1, id) + varint(2, string(name)) + varint(4, string(path)) + varint(5, line.to_i))
        end
      end

      def string(text) = @strings[text.to_s] ||= @strings.size

      def varint(field, number) = plain(field << 3) + plain(number)

      def message(field, bytes) = plain((field << 3) | 2) + plain(bytes.bytesize) + bytes

      def packed(field, numbers) = message(field, numbers.map { |number| plain(number) }.join)

      def plain(number)
        out = "".b
        while number > 127
          out << ((number & 127) | 128)
          number >>= 7
        end
        out << number
      end
    end
  end
end
