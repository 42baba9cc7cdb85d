# frozen_string_literal: true

# LineText2 cuts lines by a delimiter and text by size. Other protocols include it. The smallest of
# them and BufferedTokenizer are in this file. LineText2 makes its state (@lt2_*) at the first byte
# and needs no initialize.

module Gyre
  module EventMachine
    module Protocols
      # Calls receive_line for each line and receive_binary_data for text.
      #
      #   lines --set_text_mode(size)--> text --size bytes--> lines
      #   lines --set_text_mode--> text without an end --set_line_mode--> lines
      module LineText2
        # In the encoding of the bytes: otherwise each search would first scan all of them.
        LINE_END = "\n".b.freeze
        private_constant :LINE_END
        # Maximum bytes of a text whose size is given; Gyre does not check it.
        MaxBinaryLength = 32 * 1024 * 1024

        # Called by the reactor. A callback may change the mode and push data back.
        # @param data [String]
        def receive_data(data)
          data = data.b # a copy, as the program may keep its String
          @lt2_rest = @lt2_rest ? @lt2_rest << data : data
          return if @lt2_running # the outer call continues

          @lt2_running = true
          @lt2_scanned ||= 0
          begin
            @lt2_at = 0
            while @lt2_at < @lt2_rest.bytesize
              break unless @lt2_text ? lt2_text : lt2_lines
            end
          ensure
            @lt2_running = false
            if @lt2_at == @lt2_rest.bytesize
              @lt2_rest = nil
            elsif @lt2_at.positive? # otherwise the String stays, and further pieces cost their own bytes only
              @lt2_rest = @lt2_rest.byteslice(@lt2_at..)
            end
          end
        end

        # @param delimiter [String, Regexp] "\n" also ends lines that end with "\r\n"
        def set_delimiter(delimiter)
          @lt2_scanned = 0
          @lt2_delimiter = (delimiter.is_a?(String) ? delimiter.b : delimiter unless delimiter == "\n")
        end

        # @param data [String] parsed again, as lines
        def set_line_mode(data = nil)
          @lt2_text = false
          @lt2_wanted = nil
          @lt2_scanned = 0
          lt2_throw_back(data) if data && !data.empty?
        end

        # @param size [Integer, nil] bytes of one text; nil: pieces as they come; 0: keeps line mode
        def set_text_mode(size = nil)
          return set_line_mode if size == 0

          @lt2_text = true
          @lt2_wanted = size && Integer(size)
        end
        alias set_binary_mode set_text_mode

        # Delivers an unfinished text.
        def unbind
          rest = @lt2_rest
          @lt2_rest = nil
          receive_binary_data(rest) if @lt2_wanted && rest
        end

        # @param line [String] without its delimiter
        def receive_line(line); end

        # @param data [String]
        def receive_binary_data(data); end

        # Called after receive_binary_data if the text had a size.
        def receive_end_of_binary_data; end

        private

        # Delivers a line; false if the rest has no whole line.
        def lt2_lines
          rest = @lt2_rest
          delimiter = @lt2_delimiter
          unless ending = rest.index(delimiter || LINE_END, @lt2_at + @lt2_scanned)
            partial = rest.bytesize - @lt2_at
            @lt2_scanned = delimiter.is_a?(Regexp) ? 0 : [partial + 1 - (delimiter&.bytesize || 1), 0].max
            return false
          end

          @lt2_scanned = 0
          line = rest.byteslice(@lt2_at, ending - @lt2_at)
          if delimiter
            @lt2_at = ending + (delimiter.is_a?(Regexp) ? $~[0].bytesize : delimiter.bytesize)
          else
            @lt2_at = ending + 1
            line.chomp!("\r")
          end
          lt2_line(line)
          true
        end

        def lt2_line(line) = receive_line(line)

        def lt2_text
          wanted = @lt2_wanted
          there = @lt2_rest.bytesize - @lt2_at
          return false if wanted && there < wanted

          text = @lt2_rest.byteslice(@lt2_at, wanted || there)
          @lt2_at += text.bytesize
          set_line_mode if wanted # first, as a callback may ask for more text
          receive_binary_data(text)
          receive_end_of_binary_data if wanted
          true
        end

        # Drops the bytes not parsed yet. If they came before TLS, they must not count as protected.
        def lt2_drop = @lt2_at = @lt2_rest.bytesize

        def lt2_throw_back(data)
          return receive_data(data) unless @lt2_running

          @lt2_rest = data.b << @lt2_rest.byteslice(@lt2_at..)
          @lt2_at = 0
        end
      end

      # Lines only.
      LineProtocol = Module.new { include LineText2 }

      # Lines of at most 16 KiB, and text.
      class LineAndTextProtocol < Connection
        include LineText2

        # Maximum bytes of a line.
        MaxLineLength = 16 * 1024

        # @param data [String]
        def receive_data(data)
          super
          overlong if !@lt2_text && @lt2_rest && @lt2_rest.bytesize > MaxLineLength
        end

        # @param message [String]
        def receive_error(message); end

        private

        def lt2_line(line) = line.bytesize > MaxLineLength ? overlong : super

        def overlong
          lt2_drop
          receive_error("overlength line")
          close_connection
        end
      end

      # Calls receive_first_header_line, receive_headers and receive_request for each request.
      class HeaderAndContentProtocol < Connection
        include LineText2

        # Matches the header line with the content's length.
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

    # Splits pieces of text at a delimiter. The drop-in also defines it at the top level.
    class BufferedTokenizer
      # @param delimiter [String, nil] nil: a line's end
      def initialize(delimiter = nil)
        @delimiter = delimiter || "\n"
        @rest = +""
      end

      # @param data [String]
      # @return [Array<String>] the tokens that are whole now
      def extract(data)
        from = [@rest.size - @delimiter.size + 1, 0].max
        @rest << data
        return [] unless @rest.index(@delimiter, from)

        *tokens, @rest = @rest.split(@delimiter, -1)
        tokens
      end

      # @return [String] the text after the last delimiter; it is dropped
      def flush = @rest.slice!(0..)
    end
  end
end
