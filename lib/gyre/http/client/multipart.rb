# frozen_string_literal: true

# A multipart/form-data body (RFC 7578) for Request. Consists of Strings and Streams; a Stream reads
# its file while it is sent.

require "securerandom"

module Gyre
  module HTTP
    class Client
      class Multipart
        attr_reader :content_type

        KEYS = %w[content filename content_type].freeze
        private_constant :KEYS

        # `fields` maps names to a String, an IO (its path gives the file name), a Hash with
        # content:, filename: and content_type:, or an Array or another Hash of these.
        def initialize(fields)
          boundary = SecureRandom.hex(16)
          @content_type = "multipart/form-data; boundary=#{boundary}"
          @parts = Request.flat(:multipart, fields, method(:part?)).flat_map do |name, value|
            value = value.is_a?(Hash) ? value.transform_keys(&:to_sym) : { content: value }
            ["--#{boundary}\r\n#{head(name, value)}", content(value[:content]), "\r\n"]
          end
          @parts << "--#{boundary}--\r\n"
        end

        # Same interface as Stream.
        def size = @parts.sum { |part| (part.is_a?(String) ? part.bytesize : part.size) || (return) }
        def again = @parts.all? { |part| part.is_a?(String) || part.again }
        def each(&block) = @parts.each { |part| part.is_a?(String) ? yield(part) : part.each(&block) }

        private

        def part?(hash) = hash.keys.map(&:to_s).then { |keys| keys.include?("content") && (keys - KEYS).empty? }

        def content(value)
          return Stream.new(value) if value.respond_to?(:read)
          raise ArgumentError, "multipart: a part must be a text or an IO, not #{value.class}" if value.respond_to?(:each)

          value.to_s.b
        end

        def head(name, value)
          path = value[:content].path if value[:content].respond_to?(:path)
          file = value[:filename] || (File.basename(path) if path.respond_to?(:to_str))
          type = Request.bytes(value[:content_type] || "application/octet-stream") if file || value[:content_type]
          raise ArgumentError, "multipart: a content_type has no line end" if type&.match?(/[\r\n]/)

          ["content-disposition: form-data; name=\"#{quoted(name)}\"#{"; filename=\"#{quoted(file)}\"" if file}\r\n",
           ("content-type: #{type}\r\n" if type), "\r\n"].join
        end

        # Escapes like browsers (HTML, "multipart/form-data").
        def quoted(name) = Request.bytes(name).gsub(/[\r\n"]/, "\r" => "%0D", "\n" => "%0A", '"' => "%22")
      end
    end
  end
end
