# frozen_string_literal: true

# LineText2: lines by a delimiter, and text by size; the base of other protocols. Makes its state
# (@lt2_*) at the first byte, so it needs no initialize.

module Gyre
  module EventMachine
    module Protocols
      # Calls receive_line for each line and receive_binary_data for text.
      #
      #   lines --set_text_mode(size)--> text --size bytes--> lines
      #   lines --set_text_mode--> text without an end --set_line_mode--> lines
      module LineText2
        # Largest text of a given length, in bytes.
        MaxBinaryLength = 32 * 1024 * 1024

        # Called by the reactor. A callback may change the mode, and push data back.
        # @param data [String]
        def receive_data(data)
          data = data.b unless data.encoding == Encoding::BINARY
          @lt2_rest = @lt2_rest ? @lt2_rest << data : data
          return if @lt2_running # the outer call continues

          @lt2_running = true
          @lt2_scanned ||= 0
          begin
            @lt2_at = 0
            while @lt2_at < @lt2_rest.bytesize || @lt2_wanted&.zero?
              break unless @lt2_text ? lt2_text : lt2_lines
            end
          ensure
            @lt2_running = false
            @lt2_rest = @lt2_at < @lt2_rest.bytesize ? @lt2_rest.byteslice(@lt2_at..) : nil
          end
        end

        # @param delimiter [String, Regexp] "\n" also ends lines that end with "\r\n"
        def set_delimiter(delimiter)
          @lt2_scanned = 0
          @lt2_delimiter = delimiter == "\n" ? nil : delimiter
        end

        # @param data [String] parsed again, as lines
        def set_line_mode(data = nil)
          @lt2_text = false
          @lt2_wanted = nil
          @lt2_scanned = 0
          lt2_throw_back(data) if data && !data.empty?
        end

        # @param size [Integer, nil] bytes of one text; nil: pieces as they come
        def set_text_mode(size = nil)
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

        # True while there may be more to do.
        def lt2_lines
          rest = @lt2_rest
          delimiter = @lt2_delimiter
          unless ending = rest.index(delimiter || "\n", @lt2_at + @lt2_scanned)
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

        # Drops bytes from before TLS, which must not pass as protected.
        def lt2_drop
          @lt2_at = @lt2_rest.bytesize
        end

        def lt2_throw_back(data)
          return receive_data(data) unless @lt2_running

          @lt2_rest = data.b << @lt2_rest.byteslice(@lt2_at..)
          @lt2_at = 0
        end
      end

      # Lines only.
      LineProtocol = Module.new { include LineText2 }
    end
  end
end
