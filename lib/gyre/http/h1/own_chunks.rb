# frozen_string_literal: true

# A body that comes in chunks of the app's own, under its own transfer-encoding (Rack 2's way:
# Rack::Chunked). Response calls this and sends the parts as they are. It refuses, in words and
# before anything is sent, what would leave the client with a body that it cannot read. It writes
# nothing.

module Gyre
  module HTTP
    module H1
      # The parts of one such body.
      class OwnChunks
        # How it begins: at least a part of a size.
        FIRST = /\A\h+(?:[;\r]|\z)/n.freeze
        # The line before a chunk.
        SIZE = /\G(\h{1,15})(?:[; \t][^\r\n]*)?\r\n/n.freeze
        # What follows the last chunk's line: trailers, a blank line.
        TRAILERS = /\G(?>[^\r\n]+\r\n)*\r\n\z/n.freeze
        private_constant :FIRST, :SIZE, :TRAILERS

        # @param headers [Hash{String => String, Array<String>}] lower-case names
        # @param status [Integer]
        # @param protocol [String] the client's, HTTP/1.0 or HTTP/1.1
        # @return [String, nil] the app's transfer-encoding; nil where the framing is the server's
        # @raise [ArgumentError] it cannot be sent
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

        # @param coding [String] (see .coding)
        # @param body [#each]
        # @raise [ArgumentError] for a body that is called, or an Array that is not made of chunks
        def initialize(coding, body)
          @coding = coding
          refuse("a streaming body is framed by the server") unless body.respond_to?(:each)
          @parts = body.respond_to?(:to_ary) ? body.to_ary : body
          refuse unless !@parts.is_a?(Array) || whole?(@parts.join.b.freeze)
        end

        # @yieldparam part [String]
        # @return [void]
        # @raise [ArgumentError] before the first one is given, when that is no beginning of a
        #   chunk, or there is none
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

        # Goes from chunk to chunk: whatever they contain, that takes time in proportion to their
        # number.
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
