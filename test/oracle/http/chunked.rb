# frozen_string_literal: true

# The decoder of chunked bodies (RFC 9112, section 7.1) in Ruby, strict: bytes in, places of data in
# them out. Tests and fuzzers call it. It copies nothing and needs no byte kept between two calls.
# It stops where the trailer section starts; Trailers reads that. Twin of
# ext/gyre/http/h1/chunked.c.
#
#   size ──(blank) ";"──► extension, dropped unless it has a control byte (RFC 9112, section 7.1.1)
#     └── CR ─► size_lf ◄─ CR ─┘
#                  └► data ─► data_cr ─► data_lf ─► size …      size 0: trailers

require "gyre/errors"
require "oracle/http/fields"

module HTTPOracle
  # The state of one body.
  #
  #   chunked = HTTPOracle::Chunked.new
  #   bytes = "3\r\nabc\r\n0\r\n\r\n".b
  #   chunked.step(bytes)                                       # => :data
  #   bytes.byteslice(chunked.data_offset, chunked.data_length) # => "abc"
  #   chunked.step(bytes, chunked.position)                     # => :trailers
  #   chunked.position                                          # => 11
  class Chunked
    # One chunk-size line with extensions and CRLF.
    LINE_BYTES_LIMIT = 256
    # Extensions of all chunks of one body together.
    EXTENSION_BYTES_LIMIT = 16_384
    # Of one chunk.
    SIZE_MAX = 1 << 62

    # What each byte is, as far as the grammar asks.
    HEX = Array.new(256) { |byte| byte.chr.match?(/\h/n) ? byte.chr.hex : nil }.freeze
    TEXT = Array.new(256) { |byte| byte == 0x09 || (byte >= 0x20 && byte != 0x7f) }.freeze
    BLANK = Array.new(256) { |byte| [0x09, 0x20].include?(byte) }.freeze
    SEMICOLON = 0x3b
    private_constant :HEX, :TEXT, :BLANK, :SEMICOLON

    # Returns where the next step starts, in the bytes of the last one.
    attr_reader :position
    attr_reader :data_offset
    attr_reader :data_length
    attr_reader :remaining
    attr_reader :status
    attr_reader :reason

    def initialize
      @phase = :size
      @remaining = @line_bytes = @extension_bytes = @position = @data_offset = @data_length = 0
      @status = @reason = nil
    end

    # One step.
    def step(bytes, position = 0)
      @position = position
      loop do
        return :refused if @status
        return :trailers if @phase == :trailers
        return :more if @position >= bytes.bytesize
        return take_data(bytes) if @phase == :data

        read_byte(bytes.getbyte(@position))
        @position += 1
      end
    rescue Gyre::ProtocolError => error
      @status = error.status
      @reason = error.message
      :refused
    end

    private

    def take_data(bytes)
      @data_offset = @position
      @data_length = [@remaining, bytes.bytesize - @position].min
      @position += @data_length
      @remaining -= @data_length
      @phase = :data_cr if @remaining.zero?
      :data
    end

    # A byte outside of the data.
    def read_byte(byte)
      case @phase
      when :data_cr
        refuse("a chunk that is longer than its size") if byte != Fields::CR
        @phase = :data_lf
      when :data_lf
        expect_line_feed(byte)
        @phase = :size
        @line_bytes = 0
      else read_line(byte)
      end
    end

    def read_line(byte)
      @line_bytes += 1
      refuse("a chunk-size line that is too long") if @line_bytes > LINE_BYTES_LIMIT
      case @phase
      when :size then read_size(byte)
      when :size_lf
        expect_line_feed(byte)
        @phase = @remaining.zero? ? :trailers : :data
      else
        @extension_bytes += 1
        refuse("too many chunk extensions") if @extension_bytes > EXTENSION_BYTES_LIMIT
        @phase = after_extension_byte(byte) || refuse("a malformed chunk extension")
      end
    end

    # 1*HEXDIG
    def read_size(byte)
      digit = HEX[byte]
      if digit
        @remaining = (@remaining * 16) + digit
        refuse("a chunk size that is too large") if @remaining > SIZE_MAX
      else
        following = after_size(byte) if @line_bytes > 1
        @phase = following || refuse("a chunk size that is not a number")
      end
    end

    # The next phase; nil when the byte may not stand here.
    def after_extension_byte(byte)
      return byte == SEMICOLON ? :extension : stay_if(BLANK[byte]) if @phase == :blank

      byte == Fields::CR ? :size_lf : stay_if(TEXT[byte])
    end

    def after_size(byte)
      case byte
      when Fields::CR then :size_lf
      when SEMICOLON then :extension
      else BLANK[byte] ? :blank : nil
      end
    end

    def stay_if(allowed)
      allowed ? @phase : nil
    end

    def expect_line_feed(byte)
      refuse("a carriage return without a line feed after it") if byte != Fields::LF
    end

    def refuse(reason)
      raise Gyre::ProtocolError.new(reason, 400)
    end
  end
end
