# frozen_string_literal: true

# A body that the app has chunked itself (Rack 2's Rack::Chunked). Refuses a body that does not
# begin with a chunk. Over HTTP/1.1 Response sends the chunks unchanged and ends the connection;
# other clients get their content.

module Gyre
  module HTTP
    module H1
      class OwnChunks
        # Matches a String that begins with a chunk size. The String may end within the size.
        FIRST = /\A\h+(?:[;\r]|\z)/n.freeze

        # Returns the app's transfer-encoding; nil if the server must frame the body. Raises
        # ArgumentError for invalid headers.
        def self.coding(headers, status)
          coding = Array(headers["transfer-encoding"]).join(",").delete(" \t").downcase
          return if ["", "identity"].include?(coding) || [204, 304].include?(status)

          reason = if !coding.match?(/(?:\A|,)chunked\z/) then "chunked has to be its end"
                   elsif headers.key?("content-length") then "there is a content-length beside it"
                   end
          raise ArgumentError, "transfer-encoding: #{coding} of the app's own cannot be sent: #{reason}" if reason

          coding
        end

        # Raises ArgumentError for a callable body.
        def initialize(coding, body)
          @coding = coding
          @body = body
          refuse("a streaming body is framed by the server") unless body.respond_to?(:each)
        end

        # Raises ArgumentError if the first String does not begin a chunk.
        def each
          begun = false
          @body.each do |part|
            refuse unless begun || part.to_s.empty? || part.to_s.b.match?(FIRST)
            begun ||= !part.to_s.empty?
            yield part if begun
          end
          refuse unless begun
        end

        # Yields the content. Raises ArgumentError for invalid or missing chunks, and for another
        # coding below them.
        def each_content
          refuse("the client knows no transfer codings") unless @coding == "chunked"
          bytes = String.new
          each do |part|
            bytes << part
            while (line = bytes[/\A\h+[^\n]*\n/n])
              size = line.hex
              return if size.zero?
              break if bytes.bytesize < line.bytesize + size + 2

              yield bytes.byteslice(line.bytesize, size)
              bytes = bytes.byteslice(line.bytesize + size + 2..-1)
            end
          end
          refuse("its last chunk is missing")
        end

        private

        def refuse(reason = "its body is not made of chunks")
          raise ArgumentError, "transfer-encoding: #{@coding} of the app's own cannot be sent: #{reason}"
        end
      end
    end
  end
end
