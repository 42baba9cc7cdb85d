# frozen_string_literal: true

# What the C parser of memcached's replies and the oracle make of the same bytes, and C's encoder of
# the same keys, as lines of text that can be compared (test/c/memcached_exercise.h). Used by the
# wire's test and by the differential fuzzer. It judges nothing.

require "oracle/memcached/commands"
require "oracle/memcached/replies"
require "support/plain_answers"

module MemcachedVerdicts
  # kind is "r" for replies, "k" for a key.
  Input = Struct.new(:kind, :bytes)
  # Replies to begin with: all kinds, and what is wrong or not all there.
  REPLIES = ["HD\r\n", "HD O5 c18446744073709551615\r\n", "HD  f1  \r\n", "EN\r\n", "EN kx\r\n", "NF\r\n", "NS\r\n", "EX\r\n",
             "MN\r\n", "OK\r\n", "STORED\r\n", "RESET\r\n", "VERSION 1.6.18\r\n", "STAT pid 1\r\nSTAT a b c\r\nEND\r\n", "END\r\n",
             "VA 0\r\n\r\n", "VA 3 f4294967295 c1 t-1 l0 h1 O7 W X Z kkey b s3\r\nabc\r\n", "VA 4\r\n\r\n\r\n\r\n",
             "VA 10 f4\r\nHD\r\nVA 1\r\n\r\n", "HD\r\nVA 1 f1\r\na\r\nEN\r\nMN\r\n", "ERROR\r\n", "CLIENT_ERROR bad data chunk\r\n",
             "SERVER_ERROR out of memory storing object\r\n", "SERVER_ERROR\r\n", "", "H", "VA 5\r\nabc", "VA 3\r\nabcd\r\n",
             "VA 3\r\nabc\n\r", "VA\r\n\r\n", "VA  1\r\na\r\n", "VA  1\r\n\r\n", "HD f c1\r\n", "VA x\r\n", "VA -1\r\n",
             "VA 1073741824\r\n", "VA 1073741825\r\n", "VA 18446744073709551616\r\n", "VA 1 f-1\r\na\r\n", "VA 1 f4294967296\r\n",
             "VA 1 c\r\n", "VA 1 t9223372036854775808\r\n", "VA 1 h2\r\n", "VA 1 h\r\n", "VA 1 Oabc\r\na\r\n",
             "VA 1 O18446744073709551616 O2\r\na\r\n", "HD\n\r\n", "HD\r\r\n", "\r\nHD", "\n\n\n\n", "hd\r\n", "HDX\r\n",
             "SERVER_ERRORS\r\n", "VALUE a 0 1\r\na\r\nEND\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", "\x80\x81\x00\x00",
             "STAT #{"x" * 8185}\r\n", "STAT #{"x" * 8186}\r\n", "HD t--1\r\n", "HD t-0 l5\r\n", "HD f00000000000000000000001\r\n"].freeze
  KEYS = ["", "a", "a" * 250, "a" * 251, "a b", "\n", "\0", "\x7f", "~", "!", "\u00fc", "\xff", "ab\xff", "abc\xff", " " * 186, " " * 187,
          "\u{1f600}" * 46].freeze

  def self.inputs
    REPLIES.map { |bytes| Input.new("r", bytes.b) } + KEYS.map { |key| Input.new("k", key.b) }
  end

  # The oracle's side.
  module Oracle
    CODES = %w[HD EN NF NS EX VA MN OK STORED RESET VERSION STAT END SERVER_ERROR CLIENT_ERROR ERROR].freeze
    NONE = -2**63 # INT64_MIN

    class << self
      def verdict(input)
        return key(input.bytes) if input.kind == "k"

        replies, ending = MemcachedOracle::Replies.all(input.bytes)
        [*replies.map { |reply| line(reply) }, ending.to_s].join(" ")
      end

      private

      def line(reply)
        marks = [reply.won, reply.stale, reply.lost].map { |mark| mark ? 1 : 0 }.join(",")
        [CODES.index(reply.code), marks, reply.hit || -1, reply.flags.to_i, reply.cas.to_i,
         reply.ttl_s || NONE, reply.idle_s || NONE, reply.text.to_s.unpack1("H*"), reply.data.to_s.unpack1("H*")].join(":")
      end

      def key(bytes)
        plain = bytes.match?(/\A[\x21-\x7e]+\z/n)
        word = plain ? bytes : [bytes].pack("m0")
        return "refused" if bytes.empty? || word.bytesize > MemcachedOracle::Commands::KEY_BYTES_LIMIT

        coded = plain ? "" : " b"
        lines = ["md #{word}#{coded} q k\r\n", "ms #{word} #{1 << 30}#{coded} F#{2**32 - 1} T#{2**63 - 1} q k\r\n"]
        lines.map { |line| line.unpack1("H*") }.join(" ")
      end
    end
  end

  # C's side: a program that is compiled for the occasion.
  class Native < GyreTest::PlainAnswers
    PROGRAM = "memcached_wire_test"

    private

    def frame(input) = [input.kind, input.bytes.bytesize].pack("aV") << input.bytes

    def read(line) = line.chomp
  end
end
