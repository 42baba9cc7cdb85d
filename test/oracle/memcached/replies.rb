# frozen_string_literal: true

# The oracle's parser of what memcached replies: a second one, in Ruby, that only tests use. Bytes
# in, values out; what has come so far is parsed from its beginning each time, so that no state can
# be wrong. Source: memcached 1.6.18, doc/protocol.txt, and its proto_text.c.

module MemcachedOracle
  # kind is :value, :status, :stat, :text or :error; code the reply's first word; size and data of a
  # value; flags the words after it; text an error's or a version's.
  Reply = Struct.new(:kind, :code, :data, :flags, :text, :bytesize, keyword_init: true)

  # Cuts replies from the beginning of bytes.
  module Replies
    STATUS = %w[HD EN NF NS EX MN].freeze
    ERRORS = %w[ERROR CLIENT_ERROR SERVER_ERROR].freeze
    TEXTS = %w[OK VERSION END RESET STORED].freeze

    class << self
      # @param bytes [String] BINARY
      # @param line_bytes_limit [Integer] of a line with its end
      # @param value_bytes_limit [Integer]
      # @return [Reply, nil, :wrong] the first reply; nil where more bytes are needed
      def first(bytes, line_bytes_limit:, value_bytes_limit:)
        stop = bytes.index("\n")
        return bytes.bytesize >= line_bytes_limit ? :wrong : nil unless stop
        return :wrong if stop >= line_bytes_limit || stop.zero? || bytes.getbyte(stop - 1) != 13

        line = bytes.byteslice(0, stop - 1)
        return :wrong if line.match?(/[\x00-\x1f\x7f]/n)

        interpret(line, bytes, stop + 1, value_bytes_limit)
      end

      # @return [Array(Array<Reply>, Symbol)] all of them, and :whole, :more or :wrong
      def all(bytes, **limits)
        found = []
        until bytes.empty?
          reply = first(bytes, **limits)
          return [found, reply ? :wrong : :more] unless reply.is_a?(Reply)

          found << reply
          bytes = bytes.byteslice(reply.bytesize..)
        end
        [found, :whole]
      end

      private

      def interpret(line, bytes, start, value_bytes_limit)
        code, rest = line.split(" ", 2)
        case code
        when "VA" then value(rest, bytes, start, value_bytes_limit)
        when *STATUS then status(code, rest, start)
        when *ERRORS then Reply.new(kind: :error, code: code, text: rest.to_s, bytesize: start)
        when *TEXTS then Reply.new(kind: :text, code: code, text: rest.to_s, bytesize: start)
        when "STAT", "ME" then Reply.new(kind: :stat, code: code, text: rest.to_s, bytesize: start)
        else :wrong
        end
      end

      def status(code, rest, start)
        Reply.new(kind: :status, code: code, flags: rest.to_s.split, bytesize: start)
      end

      def value(rest, bytes, start, value_bytes_limit)
        size, *flags = rest.to_s.split
        return :wrong unless size&.match?(/\A\d{1,10}\z/) && size.to_i <= value_bytes_limit

        stop = start + size.to_i
        ending = bytes.byteslice(stop, 2).to_s
        return :wrong unless "\r\n".start_with?(ending)
        return if ending.bytesize < 2

        Reply.new(kind: :value, code: "VA", data: bytes.byteslice(start, size.to_i), flags: flags, bytesize: stop + 2)
      end
    end
  end
end
