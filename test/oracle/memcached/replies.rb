# frozen_string_literal: true

# The oracle's parser of what memcached replies: a second one, in Ruby, that only tests use. Bytes
# in, values out; what has come so far is parsed from its beginning each time, so that no state can
# be wrong. Source: memcached 1.6.18, doc/protocol.txt, and its proto_text.c.

module MemcachedOracle
  # code is the reply's first word; won, stale, lost, hit, flags, cas, ttl_s and idle_s are
  # what flags say; text what follows the first word, but of a value, or an error's whole line;
  # data a value's.
  Reply = Struct.new(:code, :won, :stale, :lost, :hit, :flags, :cas, :ttl_s, :idle_s, :text, :data, :bytesize, keyword_init: true)

  # Cuts replies from the beginning of bytes.
  module Replies
    # Those that have flags, then those of the text protocol.
    META = %w[HD EN NF NS EX VA MN].freeze
    TEXTS = %w[OK STORED RESET VERSION STAT END SERVER_ERROR CLIENT_ERROR ERROR].freeze
    # Numbers, by their flag: the field and what it can be.
    NUMBERS = { "f" => [:flags, 0...2**32], "c" => [:cas, 0...2**64],
                "t" => [:ttl_s, -2**63 + 1...2**63], "l" => [:idle_s, -2**63 + 1...2**63] }.freeze
    MARKS = { "W" => :won, "X" => :stale, "Z" => :lost }.freeze
    LINE_BYTES_LIMIT = 8192
    VALUE_BYTES_LIMIT = 1 << 30

    class << self
      # Returns the first reply; nil where more bytes are needed.
      def first(bytes)
        return if bytes.bytesize < 4

        stop = bytes.byteslice(0, LINE_BYTES_LIMIT).index("\n")
        return bytes.bytesize >= LINE_BYTES_LIMIT ? :wrong : nil unless stop
        return :wrong if stop.zero? || bytes.getbyte(stop - 1) != 13

        code, _, rest = bytes.byteslice(0, stop - 1).partition(" ")
        return value(rest, bytes, stop + 1) if code == "VA"
        return :wrong unless META.include?(code) || TEXTS.include?(code)

        reply = Reply.new(code: code, text: code.end_with?("ERROR") ? bytes.byteslice(0, stop - 1) : rest, bytesize: stop + 1)
        TEXTS.include?(code) || read_flags(reply, rest) ? reply : :wrong
      end

      # Returns all of them, and :whole, :more or :wrong.
      def all(bytes)
        found = []
        until bytes.empty?
          reply = first(bytes)
          return [found, reply ? :wrong : :more] unless reply.is_a?(Reply)

          found << reply
          bytes = bytes.byteslice(reply.bytesize..)
        end
        [found, :whole]
      end

      private

      def value(rest, bytes, start)
        size, _, flags = rest.partition(" ")
        return :wrong unless size.match?(/\A\d+\z/) && size.to_i <= VALUE_BYTES_LIMIT

        stop = start + size.to_i
        reply = Reply.new(code: "VA", bytesize: stop + 2)
        return :wrong unless read_flags(reply, flags)
        return if bytes.bytesize < reply.bytesize
        return :wrong unless bytes.byteslice(stop, 2) == "\r\n"

        reply.data = bytes.byteslice(start, size.to_i)
        reply
      end

      def read_flags(reply, text)
        text.split(/ +/).reject(&:empty?).all? { |word| read_flag(reply, word[0], word[1..]) }
      end

      def read_flag(reply, letter, rest)
        if (field, range = NUMBERS[letter])
          number = rest.to_i if rest.match?(range.begin.zero? ? /\A\d+\z/ : /\A-?\d+\z/)
          return false unless number && range.cover?(number)

          reply[field] = number
        elsif letter == "h"
          reply.hit = Integer(rest[0], 10, exception: false) if rest[0]
          return [0, 1].include?(reply.hit) && %w[0 1].include?(rest[0])
        elsif MARKS.key?(letter)
          reply[MARKS[letter]] = true
        end
        true
      end
    end
  end
end
