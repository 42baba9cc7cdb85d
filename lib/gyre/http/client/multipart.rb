# frozen_string_literal: true

# A multipart/form-data body (RFC 7578) for Request. Consists of Strings and Streams; a Stream reads
# its file while it is sent.

require "securerandom"

module Gyre
  module HTTP
    class Client
      class Multipart
        attr_reader :content_type

        # `fields` maps names to a String, an IO (its path gives the file name) or a Hash with
        # content:, filename: and content_type:.
        def initialize(fields)
          boundary = SecureRandom.hex(16)
          @content_type = "multipart/form-data; boundary=#{boundary}"
          @parts = fields.flat_map { |name, value| ["--#{boundary}\r\n#{head(name, value)}", content(value), "\r\n"] }
          @parts << "--#{boundary}--\r\n"
        end

        # Same interface as Stream.
        def size = @parts.sum { |part| (part.is_a?(String) ? part.bytesize : part.size) || (return) }
        def again = @parts.all? { |part| part.is_a?(String) || part.again }
        def each(&block) = @parts.each { |part| part.is_a?(String) ? yield(part) : part.each(&block) }

        private

        def content(value)
          value = value[:content] if value.is_a?(Hash)
          value.respond_to?(:read) ? Stream.new(value) : value.to_s.b
        end

        def head(name, value)
          value = { content: value } unless value.is_a?(Hash)
          file = value[:filename] || (File.basename(value[:content].path) if value[:content].respond_to?(:path))
          type = value[:content_type] || ("application/octet-stream" if file)
          raise ArgumentError, "multipart: a content_type has no line end" if type&.match?(/[\r\n]/)

          ["content-disposition: form-data; name=\"#{quoted(name)}\"#{"; filename=\"#{quoted(file)}\"" if file}\r\n",
           ("content-type: #{type}\r\n" if type), "\r\n"].join.b
        end

        # Escapes like browsers (HTML, "multipart/form-data").
        def quoted(name) = name.to_s.gsub(/[\r\n"]/, "\r" => "%0D", "\n" => "%0A", '"' => "%22")
      end
    end
  end
end
