# frozen_string_literal: true

# Reads files of pprof by the format's description alone, for tests: Protocol Buffers, of which it
# knows numbers and bytes.

require "zlib"

module GyreTest
  module Pprof
    Sample = Struct.new(:stack, :count, :ns, :labels)
    Frame = Struct.new(:name, :path, :line)
    File = Struct.new(:types, :samples, :seconds)

    module_function

    # Returns a File; a Sample's stack has Frames, the innermost first.
    def read(gzipped)
      fields = message(Zlib.gunzip(gzipped))
      strings = fields[6].map { |text| text.dup.force_encoding(Encoding::UTF_8) }
      functions = fields[5].map { |bytes| message(bytes) }.to_h { |one| [one[1][0], Frame.new(strings[one[2][0]], strings[one[4][0]], one[5][0])] }
      places = fields[4].map { |bytes| message(bytes) }.to_h { |one| [one[1][0], functions.fetch(message(one[4][0])[1][0])] }
      samples = fields[2].to_a.map { |bytes| sample(message(bytes), places, strings) }
      File.new(fields[1].map { |bytes| message(bytes).values_at(1, 2).map { |index| strings[index[0]] } }, samples, fields[10][0] / 1e9)
    end

    def sample(fields, places, strings)
      labels = fields[3].to_a.map { |bytes| message(bytes) }.to_h { |one| [strings[one[1][0]], strings[one[2][0]]] }
      stack = numbers(fields[1].first.to_s).map { |id| places.fetch(id) }
      Sample.new(stack, *numbers(fields[2].first), labels)
    end

    # Returns the values by field.
    def message(bytes)
      rest = bytes.b
      fields = {}
      until rest.empty?
        key = number(rest)
        value = (key & 7).zero? ? number(rest) : rest.slice!(0, number(rest))
        raise "type #{key & 7}" if [0, 2].none?(key & 7)

        (fields[key >> 3] ||= []) << value
      end
      fields
    end

    def numbers(bytes)
      rest = bytes.b
      [].tap { |all| all << number(rest) until rest.empty? }
    end

    def number(rest)
      value = shift = 0
      loop do
        byte = rest.slice!(0).ord
        value |= (byte & 127) << shift
        shift += 7
        return value if byte < 128
      end
    end
  end
end
