# frozen_string_literal: true

# Rack middleware for the setting `compress`: compresses responses for clients that accept a coding.
# br needs the gem brotli; zstd needs the gem zstd-ruby. Does not compress files; Static sends
# precompressed files.

require "gyre/http/accept_encoding"
require "gyre/http/compressors"
require "gyre/http/files/body"
require "gyre/http/files/media_types"

module Gyre
  module HTTP
    # Compresses text-like responses, except small responses and those with SPECIAL headers.
    class Compression
      # Bodies with fewer bytes stay uncompressed, because they would gain nothing.
      MINIMUM_BYTES = 1024
      # Statuses of responses that have no body or a partial body.
      LEFT = [204, 205, 206, 304].freeze
      # Headers of responses that are left unchanged.
      SPECIAL = %w[content-range x-sendfile x-accel-redirect rack.hijack rack.protocol rack.gyre.upgrade transfer-encoding].freeze
      EVENTS = "text/event-stream"
      private_constant :LEFT, :SPECIAL, :EVENTS

      # @param app [#call] a Rack app
      # @param minimum_bytes [Integer] shorter bodies stay uncompressed
      # @param codings [Hash{String => #new}] by name, in order of preference
      def initialize(app, minimum_bytes: MINIMUM_BYTES, codings: Compressors.available)
        @app = app
        @minimum_bytes = minimum_bytes
        @codings = codings
        @names = codings.keys
      end

      # @param env [Hash] a Rack env
      # @return [Array(Integer, Hash, #each)]
      def call(env)
        status, headers, body = response = @app.call(env)
        return response unless status.to_i >= 200 && !LEFT.include?(status.to_i) && headers.respond_to?(:each)

        fields = lower(headers)
        return response unless compressible?(fields, body)

        parts = body.to_ary if body.respond_to?(:to_ary)
        head = env["REQUEST_METHOD"] == "HEAD"
        return [status, headers, parts] if parts && !head && small?(parts)

        vary(fields)
        coding = AcceptEncoding.choose(env["HTTP_ACCEPT_ENCODING"], @names)
        return [status, fields, parts || body] unless coding

        [status, encoded(fields, coding), head ? parts || body : compressed(fields, parts, body, @codings.fetch(coding))]
      end

      private

      def lower(headers)
        fields = {}
        headers.each { |name, value| fields[name.to_s.downcase] = value }
        fields
      end

      def compressible?(fields, body)
        type = fields["content-type"].to_s
        return false unless Files::MediaTypes.compressible?(type) && !type.start_with?(EVENTS)
        return false if SPECIAL.any? { |name| fields.key?(name) } || (fields["content-length"] && fields["content-length"].to_i < @minimum_bytes)
        return false unless [nil, "", "identity"].include?(fields["content-encoding"])
        return false if fields["cache-control"].to_s.match?(/\bno-transform\b/i)

        body.respond_to?(:each) && !file?(body)
      end

      def file?(body) = body.is_a?(Files::Body) || (body.respond_to?(:to_path) && body.to_path.is_a?(String))

      # True if the parts are short, or if a part is not a String: the server reports such a part.
      def small?(parts) = parts.any? { |part| !part.is_a?(String) } || parts.sum(&:bytesize) < @minimum_bytes

      # Makes caches keep the compressed and the uncompressed response (RFC 9110, section 12.5.5).
      def vary(fields)
        former = Array(fields["vary"]).join(", ")
        return if former.match?(/(?:\A|[\s,])(?:accept-encoding|\*)(?:\z|[\s,])/i)

        fields["vary"] = former.empty? ? "accept-encoding" : "#{former}, accept-encoding"
      end

      # Weakens the etag, because the bytes change but not the content (RFC 9110, section 8.8.1).
      # Removes accept-ranges, as a weak validator allows no ranges.
      def encoded(fields, coding)
        fields["content-encoding"] = coding
        fields.delete("content-length")
        fields.delete("accept-ranges")
        fields["etag"] = "W/#{fields["etag"]}" if fields["etag"].to_s.start_with?('"')
        fields
      end

      def compressed(fields, parts, body, kind)
        return [Compressors.whole(kind, parts)].tap { |whole| fields["content-length"] = whole.first.bytesize.to_s } if parts

        Compressors::Parts.new(body, kind)
      end
    end
  end
end
