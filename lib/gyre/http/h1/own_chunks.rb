# frozen_string_literal: true

# A body that the app has chunked itself (Rack 2's Rack::Chunked). Refuses a body that does not
# begin with a chunk. Response sends the chunks unchanged and ends the connection.

module Gyre
  module HTTP
    module H1
      class OwnChunks
        # Matches a String that begins with a chunk size. The String may end within the size.
        FIRST = /\A\h+(?:[;\r]|\z)/n.freeze

        # Returns the app's transfer-encoding; nil if the server must frame the body. Raises
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

        private

        def refuse(reason = "its body is not made of chunks")
          raise ArgumentError, "transfer-encoding: #{@coding} of the app's own cannot be sent: #{reason}"
        end
      end
    end
  end
end
