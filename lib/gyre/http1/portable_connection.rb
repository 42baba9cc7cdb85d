# frozen_string_literal: true

# The portable engine's connection: its states between requests, in which the loop calls it and no fiber waits, and the
# primitives that begin and end a request. PortableAcceptor makes one for each client. The primitives that answer are in
# PortableAnswer; bytes come and go through PortableTransport; the parser says what they mean.

require "gyre/http1/connection"
require "gyre/http1/env"
require "gyre/http1/head"
require "gyre/http1/hijacked_socket"
require "gyre/http1/parser"
require "gyre/http1/portable_answer"
require "gyre/http1/portable_body"
require "gyre/http1/portable_transport"

module Gyre
  module HTTP1
    # Its primitives, and a drawing of its states, are in connection.rb.
    class PortableConnection < Connection
      include PortableAnswer

      # States in which a draining server closes a connection at once.
      IDLE = %i[first_byte idle].freeze
      private_constant :IDLE

      # @return [String]
      attr_reader :remote_address

      # @param acceptor [PortableAcceptor]
      # @param socket [Socket]
      # @param remote_address [String]
      def initialize(acceptor, socket, remote_address)
        super()
        @acceptor = acceptor
        @limits = acceptor.limits
        @transport = PortableTransport.new(socket, @limits)
        @remote_address = remote_address
        @requests = 0
        @under_way = @head_sent = @transmitting = false
        @body_bytes_sent = 0
      end

      # The first wait for a request. Called by the acceptor.
      #
      # @return [void]
      def begin
        await(:first_byte, @limits.first_byte_timeout_s)
      end

      # @return [Boolean] nothing is under way: no byte of a request came
      def idle?
        IDLE.include?(@state)
      end

      # (see Connection)
      def next_request
        return if closed? || (@under_way && !finish_request)
        return refuse(*@refusal) if @refusal

        case @verdict || read_head
        when :complete then start_request
        when :refused  then refuse(@parser.status, @parser.reason)
        else wait_for_more
        end
      rescue SystemCallError, IOError
        close # the client is gone, or the server closed it meanwhile
      end

      # (see Connection)
      def read_body(max_bytes)
        raise RequestCut, "the connection is closed" if closed?
        return unless @body

        write_interim(100, {}) if expects_continue?
        @body.read(max_bytes)
      rescue RequestError, RequestCut
        @keep_alive = false
        raise
      end

      # (see Connection)
      def trailers
        @body ? @body.trailers : {}
      end

      # (see Connection)
      def hijack
        raise IOError, "the connection is closed" if closed?

        rest
        @state = :hijacked
        @acceptor.forget(self)
        bytes = @transport.bytes
        bytes.empty? ? @transport.socket : HijackedSocket.new(@transport.socket, bytes)
      end

      # (see Connection)
      def close
        finish { @transport.close }
      end

      # (see Connection)
      def reset
        finish { @transport.reset }
      end

      # (see Connection)
      def closed?
        @state == :closed || @state == :hijacked
      end

      # (see Connection)
      def hijacked?
        @state == :hijacked
      end

      # @return [String]
      def inspect
        "#<#{self.class} #{@remote_address} #{@state}>"
      end

      private

      # --- called by the loop: nothing here waits ---

      def await(state, timeout_s)
        @state = state
        @timer&.cancel
        @timer = timeout_s && @acceptor.scheduler.after(timeout_s) { late }
        @watch ||= @acceptor.scheduler.watch(@transport.socket, IO::READABLE) { readable }
      end

      # No more calls from the loop.
      def rest
        @timer&.cancel
        @watch&.cancel
        @timer = @watch = nil
      end

      def readable
        lingering = @state == :lingering
        case lingering ? @transport.drop : @transport.receive
        when :end  then close
        when :data then collect unless lingering
        end
      rescue SystemCallError
        close # reset by the client
      end

      def collect
        @verdict = read_head
        return serve if @verdict

        await(:head, @limits.head_timeout_s) unless @state == :head
      end

      def late
        @timer = nil
        case @state
        when :first_byte then @refusal = [408, "no request came within #{@limits.first_byte_timeout_s} s"]
        when :head       then @refusal = [408, "the request's head took longer than #{@limits.head_timeout_s} s"]
        else return close
        end
        serve
      end

      def serve
        rest
        @state = :serving
        @acceptor.run(self)
      end

      # --- a request ---

      # @return [Symbol, nil] :complete, :refused, or nil when more has to come
      def read_head
        return if @transport.bytes.empty?

        @parser ||= Parser.new(@limits)
        length = @parser.parse(@transport.bytes)
        return if length.zero?
        return :refused if length.negative?

        @transport.consume(length)
        :complete
      end

      # @return [Hash, nil]
      def start_request
        head = @parser
        @parser = @verdict = nil
        limit = @limits.body_bytes_limit
        return refuse(413, "the body is longer than #{limit} bytes") if head.content_length.to_i > limit

        @requests += 1
        @acceptor.count_request
        @under_way = true
        begin_answer(head)
        @body = PortableBody.for(head, @transport, @limits)
        @expects_continue = head.expect_continue? && @transport.bytes.empty?
        @client_keeps = head.keep_alive?
        @keep_alive = @client_keeps && @requests < @limits.keep_alive_requests_limit
        Env.build(@acceptor.template, head, self, *local_name)
      end

      # What a request without Host was sent to.
      def local_name
        address = @transport.socket.local_address
        return %w[localhost 80] unless address.ip?

        [address.ipv6? ? "[#{address.ip_address}]" : address.ip_address, address.ip_port.to_s]
      end

      # @return [Boolean] whether the connection goes on
      def finish_request
        kept = @keep_alive && @head_sent && body_read_off?
        all_read = @body.nil? || @body.finished?
        @under_way = false
        @body = nil
        return true if kept

        # A client that said "close" and has sent no more than its request has nothing left that a reset could destroy.
        all_read && !@client_keeps && @transport.bytes.empty? ? close : linger
        false
      end

      def body_read_off?
        return true if @body.nil? || @body.finished?
        return false if @expects_continue || @body.longer_than?(@limits.unread_body_bytes_limit)

        left = @limits.unread_body_bytes_limit
        while (piece = @body.read(PortableTransport::PIECE_BYTES))
          return false if (left -= piece.bytesize).negative?
        end
        true
      rescue RequestError, RequestCut
        false
      end

      # The connection goes back to the loop.
      #
      # @return [nil]
      def wait_for_more
        if @transport.bytes.empty?
          @acceptor.draining? ? close : await(:idle, @limits.keep_alive_timeout_s)
        else
          await(:head, @limits.head_timeout_s)
        end
        nil
      end

      # @return [nil]
      def refuse(status, reason)
        @parser = @verdict = @refusal = nil
        @acceptor.count_malformed
        @transport.write(refusal(status, reason))
        linger
      end

      # The client gets a moment to read the answer: closing with unread bytes in the socket would send a reset, which may
      # overtake it (RFC 9112, section 9.6).
      #
      # @return [nil]
      def linger
        @transport.shutdown_write
        @transport.discard
        await(:lingering, @limits.linger_timeout_s)
        nil
      end

      # @return [nil]
      def finish
        return if closed?

        rest
        @state = :closed
        @acceptor.forget(self)
        yield
        nil
      end
    end
  end
end
