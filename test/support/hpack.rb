# frozen_string_literal: true

# HPACK (RFC 7541) for the HTTP/2 client of the tests: an encoder that writes literals only, so that
# a test decides about each byte, and a whole decoder, as strict as a peer has to be. No test
# itself.

module GyreTest
  # Fields to header blocks and back.
  module HPACK
    # RFC 7541, Appendix A.
    STATIC = [
      [":authority", ""], [":method", "GET"], [":method", "POST"], [":path", "/"], [":path", "/index.html"], [":scheme", "http"],
      [":scheme", "https"], *%w[200 204 206 304 400 404 500].map { |status| [":status", status] }, ["accept-charset", ""],
      ["accept-encoding", "gzip, deflate"],
      *%w[accept-language accept-ranges accept access-control-allow-origin age allow authorization cache-control
          content-disposition content-encoding content-language content-length content-location content-range content-type
          cookie date etag expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since
          last-modified link location max-forwards proxy-authenticate proxy-authorization range referer refresh retry-after
          server set-cookie strict-transport-security transfer-encoding user-agent vary via www-authenticate]
        .map { |name| [name, ""] }
    ].each(&:freeze).freeze

    # The bits of each byte's code and of EOS (RFC 7541, Appendix B); the code is canonical, so they
    # give all of it.
    BITS = %w[
      13 23 28 28 28 28 28 28 28 24 30 28 28 30 28 28 28 28 28 28 28 28 30 28 28 28 28 28 28 28 28 28
      6 10 10 12 13 6 8 11 10 10 8 11 8 6 6 6 5 5 5 6 6 6 6 6 6 6 7 8 15 6 12 10
      13 6 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 8 7 8 13 19 13 14 6
      15 5 6 5 6 5 6 6 6 5 7 7 6 6 6 5 6 7 6 5 5 6 7 7 7 7 7 15 11 14 13 28
      20 22 20 20 22 22 22 23 22 23 23 23 23 23 24 23 24 24 22 23 24 23 23 23 23 21 22 23 22 23 23 24
      22 21 20 22 22 23 23 21 23 22 22 24 21 22 23 23 21 21 22 21 23 22 23 23 20 22 22 22 23 22 22 23
      26 26 20 19 22 23 22 25 26 26 26 27 27 26 24 25 19 21 26 27 27 26 27 24 21 21 26 26 28 27 27 27
      20 24 20 21 22 21 21 23 22 22 25 25 24 24 26 23 26 27 26 26 27 27 27 27 27 28 27 27 27 27 27 26
      30
    ].map(&:to_i).freeze
    EOS = 256

    # What a peer sent is no header block.
    class Error < StandardError; end

    # [bits, code] => byte.
    SYMBOLS = BITS.each_with_index.sort.each_with_object([{}, 0, nil]) do |(bits, symbol), state|
      state[1] = (state[1] + 1) << (bits - state[2]) if state[2]
      state[0][[bits, state[1]]] = symbol
      state[2] = bits
    end.first.freeze

    class << self
      # Returns a block of literals without indexing.
      def encode(fields)
        fields.map { |name, value| literal(name, value) }.join.b
      end

      # Returns a literal field with a new name.
      def literal(name, value, kind: 0)
        kind.chr.b + string(name) + string(value)
      end

      # Returns a field, or the name of one, by its number in the tables.
      def index(number, kind: 0x80, bits: 7)
        integer(number, bits, kind)
      end

      # Returns an update of the dynamic table's size.
      def table_size(bytes)
        integer(bytes, 5, 0x20)
      end

      # Returns a string literal, without Huffman's code unless it is given coded.
      def string(text, huffman: false)
        integer(text.bytesize, 7, huffman ? 0x80 : 0) + text.b
      end

      # RFC 7541, section 5.1.
      def integer(value, bits, first = 0)
        most = (1 << bits) - 1
        return (first | value).chr.b if value < most

        bytes = [first | most]
        value -= most
        while value > 127
          bytes << (value & 127 | 128)
          value >>= 7
        end
        bytes.push(value).pack("C*")
      end

      def huffman(bytes)
        text = []
        code = bits = 0
        bytes.unpack1("B*").each_char do |bit|
          code = code << 1 | bit.ord & 1
          bits += 1
          next unless (symbol = SYMBOLS[[bits, code]])
          raise Error, "EOS in a string" if symbol == EOS

          text << symbol
          code = bits = 0
        end
        raise Error, "bad padding of a string" if bits > 7 || code != (1 << bits) - 1

        text.pack("C*")
      end
    end

    # Decodes the blocks of one connection's direction.
    class Decoder
      def initialize(limit = 4096)
        @limit = @size = limit
        @table = []
      end

      def decode(block)
        @bytes = block.b
        @at = 0
        fields = []
        until @at == @bytes.bytesize
          field = next_field(fields.empty?)
          fields << field if field
        end
        fields
      end

      private

      def next_field(first)
        byte = @bytes.getbyte(@at)
        if byte >= 0x80 then entry(integer(7))
        elsif byte >= 0x40 then literal(6).tap { |field| add(field) }
        elsif byte >= 0x20
          raise Error, "a table's size behind fields" unless first

          resize(integer(5))
        else
          literal(4)
        end
      end

      def literal(bits)
        index = integer(bits)
        [index.zero? ? string : entry(index)[0], string]
      end

      def entry(index)
        raise Error, "index 0" if index.zero?

        (index <= STATIC.size ? STATIC[index - 1] : @table[index - STATIC.size - 1]) || raise(Error, "no field has index #{index}")
      end

      def add(field)
        @table.unshift(field)
        evict
      end

      def resize(size)
        raise Error, "a table larger than allowed" if size > @limit

        @size = size
        evict
        nil
      end

      def evict
        @table.pop while @table.sum { |name, value| name.bytesize + value.bytesize + 32 } > @size
      end

      def string
        coded = byte_at(@at)[7] == 1
        length = integer(7)
        raise Error, "a cut string" if @at + length > @bytes.bytesize

        text = @bytes.byteslice(@at, length)
        @at += length
        coded ? HPACK.huffman(text) : text
      end

      def integer(bits)
        most = (1 << bits) - 1
        value = byte_at(@at) & most
        @at += 1
        return value if value < most

        shift = 0
        loop do
          byte = byte_at(@at)
          @at += 1
          value += (byte & 127) << shift
          raise Error, "a number that is too large" if (shift += 7) > 35
          return value if byte < 128
        end
      end

      def byte_at(index)
        @bytes.getbyte(index) || raise(Error, "a cut block")
      end
    end
  end
end
