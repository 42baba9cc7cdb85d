# frozen_string_literal: true

# A body of multipart/form-data (RFC 7578) for Request; reads files while they are sent.

require "securerandom"

module Gyre
  module HTTP
    class Client
      class Multipart
        PIECE_BYTES = 65_536
        private_constant :PIECE_BYTES

        attr_reader :content_type, :size

        # `fields`: names with a String, an IO (its path names the file), or a Hash of content:,
        # filename:, content_type:.
        def initialize(fields)
          boundary = SecureRandom.hex(16)
          @content_type = "multipart/form-data; boundary=#{boundary}"
          @parts = fields.flat_map { |name, value| ["--#{boundary}\r\n#{head(name, value)}", content(value), "\r\n"] }
          @parts << "--#{boundary}--\r\n"
          @size = @parts.sum { |part| part.is_a?(String) ? part.bytesize : part.size - part.pos }
          @starts = @parts.to_h { |part| [part, (part.pos unless part.is_a?(String))] }.compare_by_identity
        end

        def pos = 0
        def seek(_start) = @starts.each { |part, start| part.seek(start) if start }

        def each
          @parts.each do |part|
            next yield part if part.is_a?(String)

            while (piece = part.read(PIECE_BYTES))
              yield piece
            end
          end
        end

        private

        def content(value)
          value = value[:content] if value.is_a?(Hash)
          value.respond_to?(:read) ? value : value.to_s.b
        end

        def head(name, value)
          value = { content: value } unless value.is_a?(Hash)
          file = value[:filename] || (File.basename(value[:content].path) if value[:content].respond_to?(:path))
          type = value[:content_type] || ("application/octet-stream" if file)
          raise ArgumentError, "multipart: a content_type has no line end" if type&.match?(/[\r\n]/)

          ["content-disposition: form-data; name=\"#{quoted(name)}\"#{"; filename=\"#{quoted(file)}\"" if file}\r\n",
           ("content-type: #{type}\r\n" if type), "\r\n"].join.b
        end

        # Like browsers (HTML, "multipart/form-data").
        def quoted(name) = name.to_s.gsub(/[\r\n"]/, "\r" => "%0D", "\n" => "%0A", '"' => "%22")
      end
    end
  end
end
