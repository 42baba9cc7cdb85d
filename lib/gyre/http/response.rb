# frozen_string_literal: true

# Sends unusual Rack responses: bodies with each, call or to_path, partial hijacks, upgrades. Made
# by Service if Exchange#write_response returns false. Service closes the app's body and handles
# errors.

require "gyre/http/files/body"
require "gyre/http/input"
require "gyre/http/h1/own_chunks"
require "gyre/http/body_io"
require "gyre/http/open_responses"
require "gyre/settings/units"

module Gyre
  module HTTP
    class Response
      def initialize(exchange, env, status, headers, body, open_responses = OpenResponses.new)
        @exchange = exchange
        @env = env
        @status = status.to_i
        @body = body
        @open_responses = open_responses
        @special = {}
        @headers = collect(headers)
        @finished = @writing = false
      end

      # Sends the response. Raises ArgumentError for an invalid status or header, before any byte is
      # sent; TypeError for a part that is not a String; LengthError if the body does not match
      # content-length.
      def deliver
        raise ArgumentError, "status #{@status} cannot be a final response" unless @status.between?(200, 999) || @status == 101

        if (upgrade = @special["rack.gyre.upgrade"]) && [101, 200].include?(@status) then leave_http(upgrade)
        elsif @special["rack.hijack"] then partial_hijack(@special["rack.hijack"])
        elsif @special["rack.protocol"] && upgrade? then switch(101)
        elsif @status == 101 || tunnel? then switch(@status)
        elsif stream_of_http2? && @env["rack.protocol"] && @status < 300 then refuse_upgrade
        else send_body
        end
      end

      # Writes a part of the body; also called by BodyIO. Raises LengthError if the body gets longer
      # than its content-length.
      def write(string)
        raise TypeError, "a body must give Strings, not #{string.class}" unless string.is_a?(String)
        return string.bytesize unless @framing

        @writing = true
        excess = @left ? string.bytesize - @left : 0
        written = @exchange.write_body(excess.positive? ? string.byteslice(0, @left) : string)
        @writing = false
        return written unless @left

        @left -= written
        raise LengthError, "the body is longer than its content-length" if excess.positive?

        written
      end

      # Number of bytes sent, for OpenResponses. nil while a write waits for the client.
      def progress = @writing ? nil : @exchange.body_bytes_sent

      def finish
        return if @finished

        @finished = true
        raise LengthError, "the body is #{Units.count(@left, "byte")} shorter than its content-length" if @left&.positive?

        @exchange.finish_body
      end

      private

      # Returns headers with lower-case names. Puts the keys with "rack.", which are for the server,
      # into @special.
      def collect(headers)
        raise TypeError, "an app must return [status, headers, body], and its headers are #{headers.class}" unless headers.respond_to?(:each)

        headers.each_with_object({}) do |(name, value), collected|
          name = name.to_s.downcase
          if name.start_with?("rack.")
            @special[name] = value
          elsif !value.nil?
            value = value.is_a?(Array) ? value.map(&:to_s) : value.to_s
            # Names may differ in case, and pairs may repeat a name.
            collected[name] = collected.key?(name) && name != "content-length" ? [*collected[name], *value] : value
          end
        end
      end

      # Rack SPEC: to_ary returns the parts that each would yield, and closes the body. If a body
      # has each, call is not used. The file of to_path has the same bytes as each.
      def send_body
        coding = H1::OwnChunks.coding(@headers, @status)
        @headers.delete("transfer-encoding") # only write_chunks sends the app's transfer-encoding
        if coding then write_chunks(H1::OwnChunks.new(coding, @body), coding)
        elsif @body.is_a?(Files::Body) then write_body(@body)
        elsif @body.respond_to?(:to_ary) then write_array(@body.to_ary)
        elsif @body.respond_to?(:each)
          write_file(file_path) || write_each
        elsif @body.respond_to?(:call) then write_stream
        else raise TypeError, "a body must respond to each or call, and #{@body.class} does not"
        end
      end

      def write_array(parts)
        wrong = parts.find { |part| !part.is_a?(String) }
        raise TypeError, "a body must give Strings, not #{wrong.class}" if wrong

        length = parts.sum(&:bytesize)
        check_length(length)
        return if @exchange.write_response(@status, @headers, parts)

        start(announced || length)
        parts.each { |part| write(part) } if @framing
        finish
      end

      # Called before any byte is sent, so that the client gets a 500 and not a truncated body.
      def check_length(length)
        return if announced.nil? || announced == length || @exchange.head_only? || [204, 304].include?(@status)

        raise LengthError, "the body has #{length} bytes and its content-length is #{announced}"
      end

      def write_each
        start(announced || :chunked)
        event_stream? ? endless { each_part } : each_part if @framing
        finish
      end

      def each_part = @body.each { |part| write(part) }

      def event_stream? = Array(@headers["content-type"]).last.to_s.start_with?("text/event-stream")

      # Runs an event stream. Finishes its body if the server stops, except during a write.
      def endless(&block)
        @exchange.open_ended
        @open_responses.endless(&block)
      rescue Gyre::Stop
        finish unless @writing || @left
        raise
      end

      # Returns nil if to_path is nil, as for a pipe or a socket.
      def file_path
        path = @body.to_path if @body.respond_to?(:to_path)
        path if path.is_a?(String)
      end

      # Returns false if nothing was sent; the body's each must then send the content.
      def write_file(path)
        file = path && open_file(path) or return false
        begin
          return false unless announced.nil? || announced == file.size

          write_body(Files::Body.new(file))
          true
        ensure
          file.close
        end
      end

      # Returns nil for missing and special files, which are left to the body's each. Opens
      # non-blocking, because opening a FIFO would wait.
      def open_file(path)
        file = File.open(path, File::RDONLY | File::NONBLOCK | File::BINARY)
        return OpenFile.of(file) if file.stat.file?

        file.close
        nil
      rescue SystemCallError
        nil
      end

      # Gives up the request's place, because no app code runs while a slow client receives. If the
      # file is truncated meanwhile, `finish` raises LengthError.
      def write_body(body)
        @exchange.leave_place
        raise RequestError.new("too many files are being sent", 503) unless @exchange.hold_file

        return finish unless start(body.bytesize)

        body.each_piece do |offset, length|
          @writing = true
          sent = @exchange.write_file(body.file, offset, length)
          @writing = false
          @left -= sent
          break if sent < length
        end
        finish
      end

      # Closes the connection afterwards, because the app's chunks may be invalid.
      def write_chunks(chunks, coding)
        return finish_headless if @exchange.head_only?
        return write_content(chunks) unless @env["SERVER_PROTOCOL"] == "HTTP/1.1"

        headers = @headers.merge("transfer-encoding" => coding, "connection" => "close")
        chunks.each do |part|
          @framing ||= @exchange.write_head(@status, headers, :raw)
          write(part)
        end
        finish
      end

      # Sends the content to a client that knows no chunks.
      def write_content(chunks)
        chunks.each_content do |part|
          @framing ||= start(:chunked)
          write(part)
        end
        start(:chunked) unless @framing
        finish
      end

      # Sends a 100, if awaited, before the head: then the app cannot refuse the body any more.
      def write_stream
        @exchange.write_interim(100, {}) if @status < 300 && @exchange.expects_continue?
        start(announced || :chunked)
        return finish unless @framing

        stream = BodyIO.new(input, self)
        call = lambda do
          @body.call(stream)
          next if stream.closed? || !(event_stream? || @exchange.body_bytes_sent.zero?)

          @exchange.open_ended # the app keeps the stream
          stream.await_close
        end
        event_stream? ? endless(&call) : @open_responses.streaming(self, &call)
        stream.close
      ensure
        stream&.leave
      end

      # Prefers the Input in the env, which may hold bytes that `gets` has read ahead.
      def input
        input = @env["rack.input"]
        input.respond_to?(:readpartial) ? input : Input.new(@exchange)
      end

      # Sends the head. Returns the framing, or nil if no body follows.
      def start(framing)
        @framing = @exchange.write_head(@status, @headers, framing)
        @left = @framing if @framing.is_a?(Integer)
        @framing
      end

      def announced
        return @announced if defined?(@announced)

        value = @headers["content-length"]
        unless value.nil? || (value.is_a?(String) && value.match?(/\A\d{1,18}\z/))
          raise ArgumentError, "content-length #{value.inspect} is not a number"
        end

        @announced = value&.to_i
      end

      def partial_hijack(callable)
        return finish_headless if @exchange.head_only?

        own_framing = %w[transfer-encoding content-length upgrade].any? { |name| @headers.key?(name) }
        both_ways(callable, own_framing || @status == 101 ? :raw : :close, stays: true)
      end

      def finish_headless
        @exchange.write_head(@status, @headers, nil)
        @exchange.finish_body
      end

      # True for an upgrade (RFC 9110, section 7.8). If an app refuses (403), its headers may still
      # have rack.protocol.
      def upgrade?
        protocol = @special["rack.protocol"]
        offered = @env["rack.protocol"]
        unless protocol.is_a?(String) && offered.respond_to?(:include?) && offered.include?(protocol)
          raise ArgumentError, "rack.protocol is #{protocol.inspect}, and the client offered #{offered.inspect}"
        end
        return false unless @status == 101 || @status.between?(200, 299)

        @headers["upgrade"] = protocol unless stream_of_http2?
        true
      end

      # True for a 2xx response to CONNECT, which has no framing (RFC 9110, section 9.3.6).
      def tunnel? = @env["REQUEST_METHOD"] == "CONNECT" && @status.between?(200, 299)

      # Sends the head and hands the connection to Gyre::WebSocket (101) or Gyre::SSE (200).
      def leave_http(upgrade)
        if @status == 200
          return finish unless start(:close)
        elsif stream_of_http2?
          @exchange.write_head(200, @headers.except("upgrade", "sec-websocket-accept"), :raw)
        else
          @exchange.write_head(101, @headers.merge("connection" => "upgrade"), :raw)
        end
        upgrade.call(@exchange)
      end

      # Gives the unframed connection to the app's body until the body's call returns. In HTTP/2,
      # which has no 101, a 2xx to CONNECT opens both directions (RFC 9113, section 8.5; RFC 8441,
      # section 5).
      def switch(status)
        if stream_of_http2?
          raise ArgumentError, "HTTP/2 has no 101" unless @env["REQUEST_METHOD"] == "CONNECT" || @env["rack.protocol"]

          @status = 200 if @status == 101
        else
          raise ArgumentError, "a 101 needs an upgrade header or rack.protocol" if status == 101 && !@headers.key?("upgrade")

          @status = status
          @headers.delete("transfer-encoding")
          @headers["connection"] = "upgrade" if status == 101
        end
        @headers.delete("content-length")
        both_ways(@body.respond_to?(:each) ? ->(io) { @body.each { |part| io.write(part) } } : @body, :raw)
      end

      def stream_of_http2? = @env["SERVER_PROTOCOL"] == "HTTP/2.0"

      # Sends 400, because a 2xx would open the stream.
      def refuse_upgrade = @exchange.write_response(400, { "content-type" => "text/plain" }, ["the response opens no WebSocket\n"])

      # Calls the app with the socket. An HTTP/2 stream has no socket: the app gets a BodyIO, and an
      # exception cuts the stream. `stays`: the app itself closes the socket.
      def both_ways(callable, framing, stays: false)
        http2 = stream_of_http2?
        @framing = @exchange.write_head(@status, @headers, http2 ? :close : framing)
        @exchange.leave_place
        io = http2 ? BodyIO.new(input, self) : @exchange.hijack
        begin
          @open_responses.endless { callable.call(io) }
          called = true
        ensure
          ends = http2 ? called || $!.is_a?(Gyre::Stop) : !(stays && called)
          io.close if ends && !io.closed?
        end
      end
    end
  end
end
