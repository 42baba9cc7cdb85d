# frozen_string_literal: true

# A body that the app has chunked under its own transfer-encoding (Rack 2's Rack::Chunked). Refuses
# a malformed one before any byte is sent; Response sends it unchanged.

module Gyre
  module HTTP
    module H1
      class OwnChunks
        # Matches a chunk size, or the beginning of one in a short first part.
        FIRST = /\A\h+(?:[;\r]|\z)/n.freeze
        SIZE = /\G(\h{1,15})(?:[; \t][^\r\n]*)?\r\n/n.freeze
        # After the last chunk's line: trailers, then a blank line.
        TRAILERS = /\G(?>[^\r\n]+\r\n)*\r\n\z/n.freeze

        # Returns the app's transfer-encoding; nil if the server frames the body. Raises
        # ArgumentError for invalid headers.
        def self.coding(headers, status, protocol)
          coding = Array(headers["transfer-encoding"]).join(",").delete(" \t").downcase
          return if ["", "identity"].include?(coding) || [204, 304].include?(status)

          reason = if !coding.match?(/(?:\A|,)chunked\z/) then "chunked has to be its end"
                   elsif headers.key?("content-length") then "there is a content-length beside it"
                   elsif protocol != "HTTP/1.1" then "the client speaks #{protocol}"
                   end
          raise ArgumentError, "transfer-encoding: #{coding} of the app's own cannot be sent: #{reason}" if reason

          coding
        end

        # Raises ArgumentError for a callable body and for an Array without chunks.
        def initialize(coding, body)
          @coding = coding
          refuse("a streaming body is framed by the server") unless body.respond_to?(:each)
          @parts = body.respond_to?(:to_ary) ? body.to_ary : body
          refuse unless !@parts.is_a?(Array) || whole?(@parts.join.b.freeze)
        end

        # Raises ArgumentError if the first String does not begin a chunk.
        def each
          begun = false
          @parts.each do |part|
            refuse unless begun || part.to_s.empty? || part.to_s.b.match?(FIRST)
            begun ||= !part.to_s.empty?
            yield part if begun
          end
          refuse unless begun
        end

        private

        # Skips from chunk to chunk: the time depends only on their number.
        def whole?(bytes)
          position = 0
          while (line = bytes.match(SIZE, position))
            size = line[1].hex
            return bytes.match?(TRAILERS, line.end(0)) if size.zero?

            position = line.end(0) + size + 2
            return false unless bytes.byteslice(position - 2, 2) == "\r\n"
          end
          false
        end

        def refuse(reason = "its body is not made of chunks")
          raise ArgumentError, "transfer-encoding: #{@coding} of the app's own cannot be sent: #{reason}"
        end
      end
    end
  end
end
