# frozen_string_literal: true

# Parses HTTP responses for HttpClient and HttpClient2: bodies by length, in chunks, or up to the
# connection's end.
require "gyre/event_machine/protocols/line_text2"

module Gyre
  module EventMachine
    module Protocols
      # Calls receive_response for each final response, and `bodiless?` before its body.
      module HttpResponses
        include LineText2

        # `lines`: header lines as received; `headers`: values by lower-case name.
        Response = Struct.new(:version, :status, :lines, :headers, :content)

        def receive_line(line)
          case @http_part
          when :size then chunk_size(line)
          when :chunk_end then @http_part = :size
          when :refused then nil
          when :trailer then finish_response if line.empty?
          else head_line(line)
          end
        end

        def receive_binary_data(text)
          @http_response.content << text
          return if @http_part == :until_close

          @http_part == :chunk ? @http_part = :chunk_end : finish_response
        end

        # Ends a body without a length. Returns whether it ended a response.
        def unbind
          return false unless @http_response && %i[until_close trailer].include?(@http_part)

          finish_response
          true
        end

        private

        def head_line(line)
          return finish_head if line.empty? && @http_response
          return if line.empty?
          return header_line(line) if @http_response

          version, status = line.match(%r{\AHTTP/(\d\.\d)\s+(\d{3})}i)&.captures
          return refuse unless status

          @http_response = Response.new(version, Integer(status, 10), [line], {}, String.new)
        end

        def header_line(line)
          @http_response.lines << line
          name, value = line.split(/:\s*/, 2)
          (@http_response.headers[name.downcase] ||= []) << value.to_s
        end

        def finish_head
          status = @http_response.status
          headers = @http_response.headers
          if status.between?(100, 199) && status != 101
            @http_response = nil
          elsif bodiless? || status == 204 || status == 304
            finish_response
          elsif headers["transfer-encoding"]&.last&.match?(/chunked\s*\z/i)
            @http_part = :size
          else
            sized_body(headers["content-length"])
          end
        end

        def sized_body(lengths)
          unless lengths
            @http_part = :until_close
            return set_text_mode
          end
          return refuse unless lengths.uniq.size == 1 && lengths.first.match?(/\A\d+\s*\z/)

          length = lengths.first.to_i
          length.zero? ? finish_response : set_text_mode(length)
        end

        def chunk_size(line)
          size = line[/\A\h+/]&.hex or return refuse
          return @http_part = :trailer if size.zero?

          @http_part = :chunk
          set_text_mode(size)
        end

        # Requests fail in `unbind`.
        def refuse
          @http_part = :refused
          close_connection
        end

        def finish_response
          response = @http_response
          @http_response = @http_part = nil
          receive_response(response)
        end

        def bodiless? = false
      end
    end
  end
end
