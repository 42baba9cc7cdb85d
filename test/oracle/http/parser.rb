# frozen_string_literal: true

# The request parser of HTTP/1.0 and HTTP/1.1 in Ruby, strict after RFC 9110 and RFC 9112: bytes in,
# values out. Tests and fuzzers call it with whatever has arrived so far. It has no socket and no
# clock. Twin of ext/gyre/http/h1/parser.c: the same verdict, status and reason for the same
# bytes, and at the same byte.
#
#   start ─► method ─► target ─► version ─► fields (Fields, Framing)
#     └─ CRLF, once ─┘
#
# Each phase looks at a byte once. Where the input ends, the phase and the position are kept.

require "gyre/errors"
require "oracle/http/fields"
require "oracle/http/framing"
require "gyre/http/limits"
require "oracle/http/target"

module HTTPOracle
  # One head, first in the making and then, when {#parse} has returned its length, to be read. All
  # Strings are BINARY.
  #
  #   parser = HTTPOracle::Parser.new
  #   parser.parse("GET /a?b HTTP/1.1\r\nHost: c\r\n".b)     # => 0, more is needed
  #   parser.parse("GET /a?b HTTP/1.1\r\nHost: c\r\n\r\n".b) # => 30
  #   parser.path                                            # => "/a"
  class Parser
    # Not worth a setting: longer is not a request that is meant.
    METHOD_BYTES_LIMIT = 64
    NO_TARGET = /[^\x21\x22\x24-\x7e]/n # "?" is allowed in it, "#" is not
    private_constant :NO_TARGET

    attr_reader :status
    attr_reader :reason
    attr_reader :method
    attr_reader :target
    attr_reader :minor_version

    def initialize(limits = Gyre::HTTP::Limits.new)
      @limits = limits
      reset
    end

    # Prepares for the next head.
    def reset
      @phase = :start
      @position = @line = @token = 0
      @status = @reason = @method = @target = @parts = @minor_version = @framing = @fields = nil
      self
    end

    # Reads on. What was looked at is not looked at again. The answer depends on the bytes alone,
    # not on how they were split.
    def parse(bytes)
      raise ArgumentError, "bytes must be BINARY, not #{bytes.encoding}" unless bytes.encoding == Encoding::BINARY
      return -1 if @status
      return @position if @phase == :done
      return 0 unless read_request_line(bytes) && @fields.read(bytes)

      @framing.conclude
      @phase = :done
      @position = @fields.position
    rescue Gyre::ProtocolError => error
      @status = error.status
      @reason = error.message
      -1
    end

    def target_form
      @parts.form
    end

    def path
      @parts.path
    end

    def query
      @parts.query
    end

    def authority
      whole_authority&.text
    end

    # Returns the authority's host; an IPv6 address keeps its brackets.
    def host
      whole_authority&.host
    end

    # Returns the authority's port in digits; empty when it is not given.
    def port
      whole_authority&.port
    end

    def fields
      @fields.pairs
    end
    alias headers fields

    def content_length
      @framing.content_length
    end

    def chunked?
      @framing.chunked?
    end

    # Returns whether the connection may serve another request after this one.
    def keep_alive?
      @framing.keep_alive?
    end

    def expect_continue?
      @framing.expect_continue?
    end

    def upgrade?
      @framing.upgrade?
    end

    private

    def whole_authority
      @parts.authority || @framing.host
    end

    # Returns whether the line is complete.
    def read_request_line(bytes)
      return true if @fields
      return false unless @phase != :start || skip_empty_line(bytes)

      limited = bytes.bytesize - @line >= @limits.request_line_bytes_limit
      stop = limited ? @line + @limits.request_line_bytes_limit : bytes.bytesize
      return true if read_words(bytes, stop)

      refuse(414, "a request line that is too long") if limited
      false
    end

    # RFC 9112, section 2.2: an empty line before the request line is skipped; one, not any number.
    def skip_empty_line(bytes)
      return false if bytes.empty?

      if bytes.getbyte(0) == Fields::CR
        return false if bytes.bytesize == 1

        refuse(400, "a carriage return without a line feed after it") if bytes.getbyte(1) != Fields::LF
        @position = @line = @token = 2
      end
      @phase = :method
    end

    def read_words(bytes, stop)
      return false if @phase == :method && !read_method(bytes, stop)
      return false if @phase == :target && !read_target(bytes, stop)

      read_version(bytes, stop)
    end

    def read_method(bytes, stop)
      @position = search(bytes, Fields::NO_TOKEN, [stop, @token + METHOD_BYTES_LIMIT + 1].min)
      refuse(501, "a method that is too long") if @position - @token > METHOD_BYTES_LIMIT
      return false if @position == stop

      refuse(400, "a first line that is not an HTTP request line") if bytes.getbyte(@position) != 0x20 || @position == @token
      @method = word(bytes)
      @phase = :target
    end

    def read_target(bytes, stop)
      @position = search(bytes, NO_TARGET, stop)
      return false if @position == stop

      refuse_target(bytes.getbyte(@position)) if bytes.getbyte(@position) != 0x20
      refuse(400, "a request line without a target") if @position == @token
      @target = word(bytes)
      @phase = :version
    end

    def read_version(bytes, stop)
      complete = stop - @token >= 10
      version = bytes.byteslice(@token, complete ? 10 : stop - @token)
      refuse_version(version) unless "HTTP/1.1\r\n".start_with?(version)
      return false unless complete

      @minor_version = version.getbyte(7) == 0x30 ? 0 : 1
      @parts = Target.parse(@method, @target)
      @framing = Framing.new(@minor_version)
      @fields = Fields.new(@token + 10, @limits.header_bytes_limit, @limits.header_count_limit, @framing)
    end

    # Looks closer at a version, or the beginning of one, that is not the usual one. Nothing may be
    # wrong with it.
    def refuse_version(version)
      8.times do |index|
        return if index == version.bytesize

        sound = index == 5 || index == 7 ? version.getbyte(index).between?(0x30, 0x39) : version[index] == "HTTP/ . "[index]
        refuse(400, "a malformed HTTP version") unless sound
      end
      refuse(505, "an HTTP version other than 1.0 and 1.1") if version.getbyte(5) != 0x31
      refuse(400, "a request line that does not end in CRLF") unless "\r\n".start_with?(version.byteslice(8, 2))
    end

    # The text up to a space; goes on behind the space.
    def word(bytes)
      text = bytes.byteslice(@token, @position - @token)
      @token = @position += 1
      text
    end

    # Where the pattern is found first, at most stop.
    def search(bytes, pattern, stop)
      found = bytes.index(pattern, @position)
      found && found < stop ? found : stop
    end

    def refuse_target(byte)
      case byte
      when 0x23 then refuse(400, "a fragment in the request target")
      when Fields::CR, Fields::LF then refuse(400, "a request line without a version")
      else refuse(400, "a byte in the request target that is not allowed there")
      end
    end

    def refuse(status, reason)
      raise Gyre::ProtocolError.new(reason, status)
    end
  end
end
