# frozen_string_literal: true

# Redis' wire protocol, RESP 2. Pure: Strings in, values out.
# https://redis.io/docs/latest/develop/reference/protocol-spec/

module Gyre
  module Redis
    module Wire
      # An error reply of Redis, as a value: "ERR …".
      Failure = Struct.new(:message)
      # The head of an Array with `count` replies.
      Opening = Struct.new(:count)
      class Malformed < StandardError; end

      # Maximum bytes or elements of a reply, such as EXEC's or HGETALL's.
      LENGTH_LIMIT = 1 << 30

      module_function

      def command(*words)
        words.each_with_object("*#{words.size}\r\n".b) do |word, bytes|
          word = word.to_s.b
          bytes << "$" << word.bytesize.to_s << "\r\n" << word << "\r\n"
        end
      end

      # Returns a reply and the offset after it; nil if the reply is incomplete.
      def parse(bytes, at = 0)
        line_end = bytes.index("\r\n", at) or return
        line = bytes.byteslice(at + 1, line_end - at - 1)
        following = line_end + 2
        case bytes.getbyte(at)
        when 0x2b then [line, following]                 # +
        when 0x2d then [Failure.new(line), following]    # -
        when 0x3a then [integer(line), following]        # :
        when 0x24 then bulk(bytes, following, integer(line)) # $
        when 0x2a then [opening(integer(line)), following]   # *
        else raise Malformed, "not a reply: #{bytes.byteslice(at, 40).inspect}"
        end
      end

      def integer(text)
        raise Malformed, "not a number: #{text[0, 40].inspect}" unless text.match?(/\A-?\d{1,19}\z/)

        text.to_i
      end

      def bulk(bytes, at, length)
        return [nil, at] if length == -1
        raise Malformed, "a length of #{length}" unless length.between?(0, LENGTH_LIMIT)

        [bytes.byteslice(at, length), at + length + 2] if bytes.bytesize >= at + length + 2
      end

      def opening(count)
        raise Malformed, "an array of #{count}" unless count.between?(-1, LENGTH_LIMIT)

        Opening.new(count) unless count == -1
      end

      # Assembles replies from bytes that arrive in pieces.
      class Reader
        # The block returns more bytes.
        def initialize(&more)
          @more = more
          @bytes = "".b
          @at = 0
        end

        def read
          value = one
          value.is_a?(Opening) ? Array.new(value.count) { read } : value
        end

        private

        def one
          until (found = Wire.parse(@bytes, @at))
            @bytes = @bytes.byteslice(@at..) if @at.positive?
            @at = 0
            @bytes << @more.call
          end
          value, @at = found
          value
        end
      end
    end
  end
end
