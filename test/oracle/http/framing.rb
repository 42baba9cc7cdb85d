# frozen_string_literal: true

# What the header lines of a request mean for its framing and its connection (RFC 9112, sections
# 3.2, 6 and 9; RFC 9110, sections 7.8 and 10.1.1). Used by Parser; twin of a part of
# ext/gyre/http/h1/parser.c. What could make two parties disagree on where a request ends is
# refused, never repaired.

require "gyre/errors"
require "oracle/http/authority"

module HTTPOracle
  # Collects the lines of one head.
  class Framing
    # Of a Content-Length and of one chunk.
    LENGTH_MAX = 1 << 62
    CODING = /\A([!#$%&'*+\-.^_`|~0-9A-Za-z]+)(?:\z|[; \t])/n
    LEADING_DIGITS = /\A[0-9]*/n
    SIGNIFICANT_DIGITS = /[1-9][0-9]{0,19}|\z/n
    private_constant :CODING, :LEADING_DIGITS, :SIGNIFICANT_DIGITS

    attr_reader :host
    attr_reader :content_length

    def initialize(minor_version)
      @minor_version = minor_version
      @options = []
      @chunked = @expect = @upgrade = false
    end

    # Notes a header line. The order matters only for which of two wrongs is reported.
    def call(name, value)
      case name.bytesize
      when 4 then read_host(value) if name.casecmp?("host")
      when 6 then read_expect(value) if name.casecmp?("expect")
      when 7 then @upgrade ||= !value.empty? if name.casecmp?("upgrade")
      when 10 then read_connection(value) if name.casecmp?("connection")
      when 14 then read_content_length(value) if name.casecmp?("content-length")
      when 17 then read_transfer_encoding(value) if name.casecmp?("transfer-encoding")
      end
    end

    # At the end of the head.
    def conclude
      refuse(400, "an HTTP/1.1 request without Host") if @minor_version.positive? && !@host
    end

    def chunked?
      @chunked
    end

    def keep_alive?
      !@options.include?("close") && (@minor_version.positive? || @options.include?("keep-alive"))
    end

    def upgrade?
      @minor_version.positive? && @upgrade && @options.include?("upgrade")
    end

    def expect_continue?
      @expect && (@chunked || (!@content_length.nil? && @content_length.positive?))
    end

    private

    def read_host(value)
      refuse(400, "more than one Host") if @host
      @host = Authority.parse(value) || refuse(400, "a Host that names no host")
    end

    # Options that we do not know are none of our business.
    def read_connection(value)
      value.split(",") { |option| @options << option.strip.downcase }
    end

    # HTTP/1.0 does not know it.
    def read_expect(value)
      return if @minor_version.zero?

      refuse(417, "an expectation other than 100-continue") unless value.casecmp?("100-continue")
      @expect = true
    end

    # A list of equal numbers is refused too, since it is never meant.
    def read_content_length(value)
      refuse(400, "more than one Content-Length") if @content_length
      refuse(400, "Content-Length together with Transfer-Encoding") if @transfer_encoding
      refuse(400, "an empty Content-Length") if value.empty?
      @content_length = number(value)
    end

    # No more than 20 digits are ever turned into a number: they are enough to be too large.
    def number(value)
      digits = value[LEADING_DIGITS]
      number = digits[SIGNIFICANT_DIGITS].to_i
      refuse(400, "a Content-Length that is too large") if number > LENGTH_MAX
      refuse(400, "a Content-Length that is not a number") if digits.bytesize < value.bytesize
      number
    end

    # Only "chunked" is understood.
    def read_transfer_encoding(value)
      refuse(400, "more than one Transfer-Encoding") if @transfer_encoding
      refuse(400, "Content-Length together with Transfer-Encoding") if @content_length
      refuse(400, "Transfer-Encoding in HTTP/1.0") if @minor_version.zero?
      @transfer_encoding = true
      others = false
      elements(value).each { |coding| others = true unless read_coding(coding) }
      refuse(501, "a transfer coding other than chunked") if others
      refuse(400, "a malformed Transfer-Encoding") unless @chunked
    end

    # Empty ones are passed over (RFC 9110, section 5.6.1.2).
    def elements(value)
      value.split(",").map(&:strip).reject(&:empty?)
    end

    # Whether the coding is chunked.
    def read_coding(coding)
      refuse(400, "a Transfer-Encoding in which chunked is not the last and only once") if @chunked
      name = coding[CODING, 1] || refuse(400, "a malformed Transfer-Encoding")
      return false unless name.casecmp?("chunked")

      refuse(400, "a malformed Transfer-Encoding") unless name.bytesize == coding.bytesize
      @chunked = true
    end

    def refuse(status, reason)
      raise Gyre::ProtocolError.new(reason, status)
    end
  end
end
