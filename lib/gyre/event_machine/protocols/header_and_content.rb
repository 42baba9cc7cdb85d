# frozen_string_literal: true

# HeaderAndContentProtocol: header lines, a blank line, and content of the given length.
require "gyre/event_machine/protocols/line_text2"

module Gyre
  module EventMachine
    # EventMachine's protocols.
    module Protocols
      # Calls receive_first_header_line, receive_headers and receive_request for each request.
      class HeaderAndContentProtocol < Connection
        include LineText2

        # The header line with the length.
        ContentLengthPattern = /\AContent-length:\s*(\d+)/i.freeze

        # @param headers [Array<String>]
        # @return [Hash{Symbol => String}] by lower-case names with underscores
        def self.headers_2_hash(headers)
          headers.each_with_object({}) do |line, hash|
            name, value = line.split(/\s*:\s*/, 2)
            hash[name.downcase.tr("-", "_").to_sym] = value if value
          end
        end

        # See {.headers_2_hash}.
        def headers_2_hash(headers) = self.class.headers_2_hash(headers)

        # @param line [String]
        def receive_line(line)
          @hc_headers ||= []
          return finish_headers if line.empty? && @hc_headers.any?
          return if line.empty?

          receive_first_header_line(line) if @hc_headers.empty?
          @hc_headers << line
          return unless length = line[ContentLengthPattern, 1]
          raise "extraneous content-length header" if @hc_length

          @hc_length = Integer(length, 10)
        end

        # @param text [String]
        def receive_binary_data(text) = dispatch(text)

        # @param line [String]
        def receive_first_header_line(line); end

        # @param headers [Array<String>]
        def receive_headers(headers); end

        # @param headers [Array<String>]
        # @param content [String]
        def receive_request(headers, content); end

        private

        def finish_headers
          receive_headers(@hc_headers)
          @hc_length.to_i.positive? ? set_text_mode(@hc_length) : dispatch("")
        end

        def dispatch(content)
          headers = @hc_headers
          @hc_headers = @hc_length = nil
          receive_request(headers, content)
        end
      end
    end
  end
end
