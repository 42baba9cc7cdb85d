# frozen_string_literal: true

# A body of multipart/form-data (RFC 7578) for Request: Strings and Streams, which read files while
# they are sent.

require "securerandom"

module Gyre
  module HTTP
    class Client
      class Multipart
        attr_reader :content_type

        # `fields`: names with a String, an IO (its path names the file), or a Hash of content:,
        # filename:, content_type:.
        def initialize(fields)
          boundary = SecureRandom.hex(16)
          @content_type = "multipart/form-data; boundary=#{boundary}"
          @parts = fields.flat_map { |name, value| ["--#{boundary}\r\n#{head(name, value)}", content(value), "\r\n"] }
          @parts << "--#{boundary}--\r\n"
        end

        # As Stream's.
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

        # Like browsers (HTML, "multipart/form-data").
        def quoted(name) = name.to_s.gsub(/[\r\n"]/, "\r" => "%0D", "\n" => "%0A", '"' => "%22")
      end
    end
  end
end
