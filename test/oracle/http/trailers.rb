# frozen_string_literal: true

# The trailer section after the last chunk of a body (RFC 9112, section 7.1.2): bytes in, pairs out.
# Tests and fuzzers call it where Chunked stops. Twin of gyre_http1_trailers_parse in
# ext/gyre/http/h1/parser.c.

require "gyre/errors"
require "oracle/http/fields"
require "gyre/http/limits"

module HTTPOracle
  # One section, first in the making and then, when {#parse} has returned its length, to be read.
  class Trailers
    # RFC 9110, section 6.5.1: what frames, routes, authenticates or conditions a request has to be
    # known before its body. As a trailer it is left out.
    FORBIDDEN = %w[
      te host range cookie expect pragma trailer upgrade if-match if-range connection keep-alive content-type max-forwards
      authorization cache-control content-range if-none-match content-length http2-settings content-encoding proxy-connection
      if-modified-since transfer-encoding if-unmodified-since proxy-authorization
    ].to_h { |name| [name, true] }.freeze

    attr_reader :status
    attr_reader :reason

    def initialize(limits = Gyre::HTTP::Limits.new)
      @fields = Fields.new(0, limits.trailer_bytes_limit, limits.header_count_limit, method(:check))
      @status = @reason = nil
    end

    # Reads on.
    def parse(bytes)
      return -1 if @status

      @fields.read(bytes) ? @fields.position : 0
    rescue Gyre::ProtocolError => error
      @status = error.status
      @reason = error.message
      -1
    end

    def fields
      @fields.pairs
    end

    private

    def check(name, _value)
      :drop if FORBIDDEN.key?(name.downcase)
    end
  end
end
