# frozen_string_literal: true

# The portable engine of a server: accepts on its listening sockets, keeps the books of its connections, and runs the
# handler in a pooled fiber for each that has a request. Server's header describes the interface; NativeAcceptor is the
# same in C. It needs from its scheduler watch, after, spawn and fiber_interrupt, and knows nothing of HTTP but the 503.

require "socket"
require "gyre/http1/head"
require "gyre/http1/portable_connection"
require "gyre/http1/reason"

module Gyre
  module HTTP1
    # See Server's header.
    class PortableAcceptor
      # Connections taken from one socket in one turn, so that those who are connected are not kept waiting.
      ACCEPTS_IN_A_TURN = 64
      # How long accepting pauses when the process has no descriptor left.
      PAUSE_S = 1.0
      # The process or the system is short of something that others may give back.
      SHORTAGES = [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM].freeze
      # What a peer that left between connecting and being accepted looks like (accept(2)).
      GONE = [Errno::ECONNABORTED, Errno::ECONNRESET, Errno::EPROTO, Errno::EINTR].freeze
      private_constant :ACCEPTS_IN_A_TURN, :PAUSE_S, :SHORTAGES, :GONE

      # @return [Limits]
      attr_reader :limits
      # @return [Hash{String => Object}]
      attr_reader :template
      # @return [Gyre::Scheduler::Portable]
      attr_reader :scheduler

      # @param sockets [Array<IO>] listening
      # @param handler [#call, #error] see Server's header
      # @param limits [Limits]
      # @param template [Hash] see Env.template
      def initialize(sockets, handler, limits, template)
        @sockets = sockets
        @handler = handler
        @limits = limits
        @template = template
        @scheduler = Fiber.scheduler
        @watches = {}
        @connections = {}.compare_by_identity
        @running = {}.compare_by_identity
        @accepted = @requests = @malformed = @refused = 0
        @draining = @stopped = false
        @runner = method(:run_handler)
      end

      # @return [void]
      def start
        @sockets.each { |socket| listen_on(socket) }
      end

      # @return [void]
      def stop
        @stopped = true
        @watches.each_value(&:cancel)
        @watches.clear
      end

      # @return [void]
      def drain
        stop
        @draining = true
        @connections.each_key.select(&:idle?).each(&:close)
      end

      # @param exception [Exception]
      # @return [Integer]
      def interrupt(exception)
        fibers = @running.keys
        fibers.each { |fiber| @scheduler.fiber_interrupt(fiber, exception) }
        fibers.size
      end

      # @return [void]
      def close
        stop
        @connections.keys.each(&:close)
      end

      # @return [Hash{Symbol => Integer}]
      def stats
        { connections: @connections.size, idle: @connections.each_key.count(&:idle?), running: @running.size, accepted: @accepted,
          requests: @requests, malformed: @malformed, refused: @refused }
      end

      # @return [Boolean]
      def draining?
        @draining
      end

      # For PortableConnection: it has a request, or one to refuse.
      #
      # @param connection [PortableConnection]
      # @return [void]
      def run(connection)
        @scheduler.spawn(@runner, connection)
      rescue FiberError, NoMemoryError => error
        connection.close
        @handler.error("no fiber for a request: #{error.message}")
      end

      # For PortableConnection: it is closed, or hijacked.
      #
      # @param connection [PortableConnection]
      # @return [void]
      def forget(connection)
        @connections.delete(connection)
      end

      # For PortableConnection.
      #
      # @return [void]
      def count_request
        @requests += 1
      end

      # For PortableConnection.
      #
      # @return [void]
      def count_malformed
        @malformed += 1
      end

      private

      def run_handler(connection)
        @running[Fiber.current] = true
        @handler.call(connection)
      ensure
        @running.delete(Fiber.current)
      end

      def listen_on(socket)
        return if @stopped

        @watches[socket] = @scheduler.watch(socket, IO::READABLE) { accept_some(socket) }
      end

      def accept_some(socket)
        ACCEPTS_IN_A_TURN.times do
          client, address = socket.accept_nonblock(exception: false)
          return if client == :wait_readable

          admit(client, address)
          break if @stopped
        end
      rescue *GONE
        nil # the next turn accepts the next one
      rescue *SHORTAGES => error
        pause(socket, error)
      end

      # The backlog stays readable, so going on at once would only burn the processor.
      def pause(socket, error)
        @watches.delete(socket)&.cancel
        @handler.error("cannot accept connections: #{error.message}; trying again in a second")
        @scheduler.after(PAUSE_S) { listen_on(socket) }
      end

      def admit(client, address)
        return refuse(client) if @connections.size >= @limits.connections_limit

        address ||= client.remote_address # a TCPServer gives none
        @accepted += 1
        # Answers leave in one piece; waiting for more to send with it would only delay them (tcp(7)).
        client.setsockopt(:TCP, :NODELAY, true) if address.ip?
        connection = PortableConnection.new(self, client, address.ip? ? address.ip_address.b : String.new)
        @connections[connection] = true
        connection.begin
      rescue SystemCallError
        client.close # gone already
      end

      # Best effort, without a fiber: the sooner this one is gone, the better.
      def refuse(client)
        @refused += 1
        text = "too many connections\n"
        head = Head.compose(503, { "content-type" => "text/plain", "retry-after" => "1" }, text.bytesize, "close")
        client.write_nonblock(head << text, exception: false)
        client.shutdown(:WR)
      rescue SystemCallError
        nil # gone already
      ensure
        client.close
      end
    end
  end
end
