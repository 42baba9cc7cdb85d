# frozen_string_literal: true

# Sends unusual Rack responses: bodies with each, call or to_path, partial hijack, upgrades. Made by
# Service when Exchange#write_response declines. Never closes the app's body (Service does), and
# rescues no error of app or client.

require "gyre/http/errors"
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

      # Raises ArgumentError or TypeError before any byte is sent, LengthError if the body does not
      # match its content-length.
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

      # Writes for BodyIO; refuses more bytes than announced.
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

      # Bytes sent, for OpenResponses; nil while a write waits for the client.
      def progress = @writing ? nil : @exchange.body_bytes_sent

      def finish
        return if @finished

        @finished = true
        raise LengthError, "the body is #{Units.count(@left, "byte")} shorter than its content-length" if @left&.positive?

        @exchange.finish_body
      end

      private

      # Collects lower-case names and values; separates entries for the server.
      def collect(headers)
        unless headers.respond_to?(:each)
          raise TypeError, "an app must return [status, headers, body], and its headers are #{headers.class}"
        end

        headers.each_with_object({}) do |(name, value), collected|
          name = name.to_s.downcase
          if name.start_with?("rack.")
            @special[name] = value
          elsif !value.nil?
            collected[name] = value.is_a?(Array) ? value.map(&:to_s) : value.to_s
          end
        end
      end

      # Rack SPEC: to_ary returns each's parts and closes the body; each precedes call; to_path
      # gives the same bytes.
      def send_body
        coding = H1::OwnChunks.coding(@headers, @status, @env["SERVER_PROTOCOL"])
        @headers.delete("transfer-encoding") # else the framing is the server's
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

      # Checks before any byte is sent: the client gets a 500, not a truncation.
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

      def event_stream? = @headers["content-type"].to_s.start_with?("text/event-stream")

      # Ends an event stream, unless the server stops during a write.
      def endless(&block)
        @exchange.leave_place
        @open_responses.endless(&block)
      rescue Gyre::Stop
        finish unless @writing || @left
        raise
      end

      # An IO's to_path is nil for a pipe or socket.
      def file_path
        path = @body.to_path if @body.respond_to?(:to_path)
        path if path.is_a?(String)
      end

      # False if nothing was sent: the body's each must send the file.
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

      # The body's each decides about missing and special files. Opens non-blocking, as a FIFO would
      # wait.
      def open_file(path)
        file = File.open(path, File::RDONLY | File::NONBLOCK | File::BINARY)
        return OpenFile.of(file) if file.stat.file?

        file.close
        nil
      rescue SystemCallError
        nil
      end

      # Runs no app code, so that a slow client may take any time. A file truncated meanwhile yields
      # too few bytes.
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

      # Only the connection's end surely marks these bytes' end.
      def write_chunks(chunks, coding)
        return finish_headless if @exchange.head_only?

        headers = @headers.merge("transfer-encoding" => coding, "connection" => "close")
        chunks.each do |part|
          @framing ||= @exchange.write_head(@status, headers, :raw)
          write(part)
        end
        finish
      end

      # Sends an awaited 100 now: it must precede the head, and the app can no longer refuse the
      # body.
      def write_stream
        @exchange.write_interim(100, {}) if @status < 300 && @exchange.expects_continue?
        start(announced || :chunked)
        return finish unless @framing

        stream = BodyIO.new(input, self)
        call = -> { @body.call(stream) }
        event_stream? ? endless(&call) : @open_responses.streaming(self, &call)
        stream.close
      end

      # Reads the app's Input first, which may hold bytes that gets read ahead.
      def input
        input = @env["rack.input"]
        input.respond_to?(:readpartial) ? input : Input.new(@exchange)
      end

      # Returns the framing, or nil without a body.
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

      # Is it an upgrade (RFC 9110, section 7.8)? A refusing app (403) may leave rack.protocol in
      # its headers.
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

      # A 2xx to CONNECT has no framing (RFC 9110, section 9.3.6).
      def tunnel? = @env["REQUEST_METHOD"] == "CONNECT" && @status.between?(200, 299)

      # For Gyre::WebSocket and Gyre::SSE (200): another protocol takes over the connection after
      # this request.
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

      # Gives the connection to the app until its body returns, without framing. HTTP/2 has no 101:
      # a 2xx to CONNECT opens both directions (RFC 9113, section 8.5; RFC 8441, section 5).
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

      # A 2xx would open the stream.
      def refuse_upgrade = @exchange.write_response(400, { "content-type" => "text/plain" }, ["the response opens no WebSocket\n"])

      # A stream of HTTP/2 has no socket: the app gets a streaming body's argument, and an exception
      # cuts the stream. `stays`: the app closes the socket.
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
