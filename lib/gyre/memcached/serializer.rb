# frozen_string_literal: true

# The default serializer: nil, true, false, numbers, Strings, Symbols, Arrays, Hashes as MessagePack
# (github.com/msgpack/msgpack, spec.md). Refuses other objects, and those that would not come back
# equal.

require "gyre/memcached/errors"

module Gyre
  module Memcached
    # Calls no code of objects' classes.
    module Serializer
      # MessagePack's extension types; msgpack-ruby also has 0 for Symbols.
      SYMBOL = 0
      INTEGER = 1 # beyond 64 bits: hexadecimal digits
      STRING = 2 # of another encoding: its name, a NUL, the bytes

      # pack's directives by code; a code's last two bits tell the size.
      NUMBERS = { 0xca => "g", 0xcb => "G", 0xcc => "C", 0xcd => "n", 0xce => "N", 0xcf => "Q>",
                  0xd0 => "c", 0xd1 => "s>", 0xd2 => "l>", 0xd3 => "q>" }.freeze

      DEPTH_LIMIT = 100

      module_function

      # Raises SerializationError for other classes and subclasses.
      def dump(value) = Writer.new.write(value, 0)

      # Raises DeserializationError for another form or extra bytes.
      def load(bytes) = Reader.new(bytes.encoding == Encoding::BINARY ? bytes : bytes.b).read_all

      def to_s = name

      class Writer
        def initialize
          @to = String.new(capacity: 64, encoding: Encoding::BINARY)
        end

        def write(value, depth)
          case value
          when nil then @to << 0xc0
          when false then @to << 0xc2
          when true then @to << 0xc3
          when Integer then write_integer(value)
          when Float then @to << [0xcb, value].pack("CG")
          when Symbol then write_symbol(value)
          else write_object(value, depth)
          end
          @to
        end

        private

        def write_object(value, depth)
          raise SerializationError, "Arrays and Hashes are nested more than #{DEPTH_LIMIT} deep, or contain themselves" if depth >= DEPTH_LIMIT

          if value.instance_of?(String) then write_string(value)
          elsif value.instance_of?(Array) then write_array(value, depth + 1)
          elsif value.instance_of?(Hash) && plain?(value) then write_hash(value, depth + 1)
          else
            raise SerializationError, "#{value.class} is not among the classes that the default serializer stores (nil, true, false, Integer, " \
                                      "Float, String, Symbol, Array, Hash); convert it, or give the client serializer: Marshal"
          end
        end

        def plain?(hash) = hash.default.nil? && hash.default_proc.nil? && !hash.compare_by_identity?

        def write_integer(value)
          return @to << (value & 0xff) if value.between?(-0x20, 0x7f)

          bits = value.bit_length + (value.negative? ? 1 : 0)
          size = [8, 16, 32, 64].index { |limit| bits <= limit } or return write_extension(INTEGER, value.to_s(16))
          code = (value.negative? ? 0xd0 : 0xcc) + size
          @to << [code, value].pack("C#{NUMBERS.fetch(code)}")
        end

        def write_string(value)
          case value.encoding
          when Encoding::UTF_8
            size = value.bytesize
            size < 32 ? @to << (0xa0 | size) : write_head(0xd9, size)
            append(value)
          when Encoding::BINARY
            write_head(0xc4, value.bytesize)
            @to << value
          else write_extension(STRING, "#{value.encoding.name}\0".b << value.b)
          end
        end

        def write_symbol(value)
          name = value.name
          unless [Encoding::UTF_8, Encoding::US_ASCII].include?(name.encoding)
            raise SerializationError, "the Symbol #{value.inspect} is in #{name.encoding}; only UTF-8 ones can be stored"
          end

          write_extension(SYMBOL, name)
        end

        def write_array(values, depth)
          size = values.size
          size < 16 ? @to << (0x90 | size) : write_long_head(0xdc, size)
          values.each { |value| write(value, depth) }
        end

        def write_hash(pairs, depth)
          size = pairs.size
          size < 16 ? @to << (0x80 | size) : write_long_head(0xde, size)
          pairs.each do |key, value|
            write(key, depth)
            write(value, depth)
          end
        end

        def write_extension(type, bytes)
          write_head(0xc7, bytes.bytesize)
          @to << type
          append(bytes)
        end

        # Codes of the three sizes are consecutive.
        def write_head(code, size)
          if size < 0x100 then @to << [code, size].pack("CC")
          elsif size < 0x10000 then @to << [code + 1, size].pack("Cn")
          else @to << [code + 2, size].pack("CN")
          end
        end

        def write_long_head(code, size) = size < 0x10000 ? @to << [code, size].pack("Cn") : @to << [code + 1, size].pack("CN")

        # `<<` refuses non-ASCII text of other encodings.
        def append(text) = @to << (text.ascii_only? ? text : text.b)
      end

      class Reader
        SIZES = { 1 => "C", 2 => "n", 4 => "N" }.freeze

        def initialize(bytes)
          @bytes = bytes
          @at = 0
          @owed = 0 # values still missing from the Arrays and Hashes being read
        end

        def read_all
          value = read(0)
          refuse("#{@bytes.bytesize - @at} more bytes follow") if @at < @bytes.bytesize
          value
        end

        private

        def read(depth)
          code = byte
          if code < 0x80 then code
          elsif code >= 0xe0 then code - 0x100
          elsif code < 0x90 then hash(code & 0x0f, depth)
          elsif code < 0xa0 then array(code & 0x0f, depth)
          elsif code < 0xc0 then text(code & 0x1f)
          else read_by_code(code, depth)
          end
        end

        def read_by_code(code, depth)
          case code
          when 0xc0 then nil
          when 0xc2 then false
          when 0xc3 then true
          when 0xc4..0xc6 then take(size(1 << (code - 0xc4)))
          when 0xc7..0xc9 then extension(size(1 << (code - 0xc7)))
          when 0xca..0xd3 then number(code)
          when 0xd4..0xd8 then extension(1 << (code - 0xd4))
          when 0xd9..0xdb then text(size(1 << (code - 0xd9)))
          when 0xdc, 0xdd then array(size(2 << (code - 0xdc)), depth)
          when 0xde, 0xdf then hash(size(2 << (code - 0xde)), depth)
          else refuse(format("0x%02x begins no value", code))
          end
        end

        def array(count, depth)
          check(count, depth)
          Array.new(count) { part(depth) }
        end

        def hash(count, depth)
          check(2 * count, depth)
          hash = {}
          count.times do
            key = part(depth)
            hash[key] = part(depth)
          end
          hash
        end

        def part(depth)
          @owed -= 1
          read(depth + 1)
        end

        # Each value takes at least a byte: refuses a larger count (with outer levels' missing
        # values) before memory is reserved.
        def check(count, depth)
          refuse("it is nested more than #{DEPTH_LIMIT} deep") if depth >= DEPTH_LIMIT
          refuse("it is cut off") if count > @bytes.bytesize - @at - @owed

          @owed += count
        end

        def number(code) = take(1 << (code & 3)).unpack1(NUMBERS.fetch(code))

        def size(bytes) = take(bytes).unpack1(SIZES.fetch(bytes))

        def text(size) = take(size).force_encoding(Encoding::UTF_8)

        def extension(size)
          type = byte
          content = take(size)
          case type
          when SYMBOL then symbol(content)
          when INTEGER then Integer(content, 16)
          when STRING then encoded(content)
          else refuse("extension type #{type} is unknown")
          end
        rescue ArgumentError => error # no digits, no such encoding
          refuse(error.message)
        end

        def symbol(content)
          content.force_encoding(Encoding::UTF_8)
          refuse("a Symbol is not UTF-8") unless content.valid_encoding?
          content.to_sym
        end

        def encoded(content)
          name, bytes = content.split("\0", 2)
          refuse("a String has no encoding") unless bytes
          bytes.force_encoding(Encoding.find(name))
        end

        def byte
          byte = @bytes.getbyte(@at) || refuse("it is cut off")
          @at += 1
          byte
        end

        def take(size)
          refuse("it is cut off") if size > @bytes.bytesize - @at
          taken = @bytes.byteslice(@at, size)
          @at += size
          taken
        end

        def refuse(reason)
          marshal = @bytes.start_with?("\x04\x08".b) ? "; it looks like Marshal's, which a client with serializer: Marshal reads" : ""
          raise DeserializationError, "a stored value of #{@bytes.bytesize} bytes is not in the default serializer's form: #{reason}#{marshal}"
        end
      end
    end
  end
end
