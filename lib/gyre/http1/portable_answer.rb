# frozen_string_literal: true

# How the portable connection answers: the write primitives of Connection, in Ruby. Included in PortableConnection,
# whose transport, acceptor and request state it uses; nobody else includes it. Head composes what goes out here.

require "gyre/http1/errors"
require "gyre/http1/head"

module Gyre
  module HTTP1
    # The primitives are documented in Connection.
    module PortableAnswer
      # Larger bodies are not copied to stand behind their head in one String.
      JOIN_BYTES_LIMIT = 65_536
      # A file is read and written in such pieces.
      FILE_PIECE_BYTES = 262_144
      # An answer with one of these goes the slow way.
      SPECIAL = %w[rack.hijack rack.protocol transfer-encoding].freeze
      private_constant :JOIN_BYTES_LIMIT, :FILE_PIECE_BYTES, :SPECIAL

      # @return [Integer]
      attr_reader :body_bytes_sent

      # (see Connection)
      def write_response(status, headers, body)
        return true if hijacked?
        return false unless plain?(status, headers, body)

        length = body.sum(&:bytesize)
        given = given_length(headers)
        framing = length
        if bodiless?(status)
          return false unless given.nil? || given.match?(/\A\d+\z/)

          framing = bodiless_length(status, given, length)
          body = []
        elsif given && given != length.to_s
          return false
        end
        @keep_alive = false if @body&.longer_than?(@limits.unread_body_bytes_limit)
        transmit_all([compose(status, headers, framing), *body])
        @body_bytes_sent = length unless bodiless?(status)
        true
      end

      # (see Connection)
      def write_head(status, headers, framing)
        framing = :close if framing == :chunked && @http10
        framing = nil if framing != :raw && (status == 204 || (status == 304 && !framing.is_a?(Integer)))
        @keep_alive = false if framing == :raw || (framing == :close && !@head_only)
        transmit(compose(status, headers, framing))
        @framing = framing == :raw || !bodiless?(status) ? framing : nil
      end

      # (see Connection)
      def write_body(string)
        size = string.bytesize
        return size if size.zero? || @framing.nil?

        transmit_all(@framing == :chunked ? ["#{size.to_s(16)}\r\n", string, "\r\n"] : [string])
        @body_bytes_sent += size
        size
      end

      # (see Connection)
      def finish_body
        transmit("0\r\n\r\n") if @framing == :chunked
        @framing = nil
      end

      # (see Connection)
      def write_file(io, offset, length)
        sent = 0
        while sent < length
          piece = io.pread([FILE_PIECE_BYTES, length - sent].min, offset + sent)
          transmit(piece)
          sent += piece.bytesize
          @body_bytes_sent += piece.bytesize
        end
        sent
      rescue EOFError
        sent # the file has become shorter
      end

      # (see Connection)
      def write_interim(status, headers)
        head = Head.interim(status, headers)
        return false if @http10 || @head_sent || closed?

        @expects_continue = false if status == 100
        transmit(head)
        true
      end

      # (see Connection)
      def head_sent?
        @head_sent
      end

      # (see Connection)
      def keep_alive?
        @keep_alive
      end

      # (see Connection)
      def expects_continue?
        @expects_continue && !@head_sent
      end

      # (see Connection)
      def head_only?
        @head_only
      end

      private

      def begin_answer(head)
        @head_sent = false
        @framing = nil
        @body_bytes_sent = 0
        @http10 = head.minor_version.zero?
        @head_only = head.method == "HEAD"
      end

      # @return [String] a whole answer that ends the connection
      def refusal(status, reason)
        text = "#{reason}\n"
        Head.compose(status, { "content-type" => "text/plain" }, text.bytesize, "close") << text
      end

      # Whether the fast path will do.
      def plain?(status, headers, body)
        status.is_a?(Integer) && status.between?(200, 599) && headers.is_a?(Hash) && body.is_a?(Array) && body.all?(String) &&
          headers.all? do |name, value|
            name.is_a?(String) && !SPECIAL.include?(name.downcase) && (value.is_a?(Array) ? value : [value]).all?(String)
          end
      end

      def given_length(headers)
        value = headers.fetch("content-length") { headers.find { |name, _| name.casecmp?("content-length") }&.last }
        value.is_a?(Array) ? value.join(", ") : value
      end

      # RFC 9110, section 8.6: what the length of a GET's 200 would be, if that is known; never in a 204. An empty body to HEAD
      # usually means that somebody took it away.
      def bodiless_length(status, given, length)
        return if status == 204
        return given.to_i if given

        length if @head_only && status != 304 && length.positive?
      end

      def bodiless?(status)
        @head_only || status == 204 || status == 304
      end

      # The head, and with it the last word on whether the connection is kept.
      def compose(status, headers, framing)
        keep = @keep_alive && !@acceptor.draining? && !expects_continue? && !Head.close?(headers)
        field = keep ? ("keep-alive" if @http10) : "close"
        head = Head.compose(status, headers, framing, framing == :raw ? nil : field)
        @keep_alive = keep
        @head_sent = true
        head
      end

      # In as few writes as go without copying large parts.
      def transmit_all(parts)
        joined = String.new
        parts.each do |part|
          if joined.bytesize + part.bytesize > JOIN_BYTES_LIMIT
            transmit(joined)
            transmit(part)
            joined = String.new
          else
            joined << (part.ascii_only? ? part : part.b)
          end
        end
        transmit(joined)
      end

      def transmit(bytes)
        raise Errno::EPIPE, "the connection is closed" if closed?
        raise IOError, "another fiber is writing on this connection" if @transmitting

        transmit_whole(bytes)
      end

      # A network error here ends the connection, so that nobody takes it for the app's own; and nothing may follow a
      # message that was interrupted in the middle.
      def transmit_whole(bytes)
        @transmitting = true
        @transport.write(bytes)
        done = true
      rescue SystemCallError, IOError => error
        close
        raise error.instance_of?(IOError) ? Errno::EPIPE.new(error.message) : error # closed by the server meanwhile
      ensure
        @transmitting = false
        reset unless done || closed?
      end
    end
  end
end
