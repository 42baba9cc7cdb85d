# frozen_string_literal: true

# A name server over TCP (RFC 7766) or TLS (RFC 7858): callers share a connection, replies come in
# any order. Made by Gyre::DNS::Upstream. Holds no fiber: one waiting caller reads for all.

require "gyre/clock"
require "gyre/net"
require "gyre/sync/waiters"

module Gyre
  module DNS
    class UpstreamStream
      def initialize(server, tls)
        @server = server
        @tls = tls
        @lock = Thread::Mutex.new
      end

      # Returns {query => packet}, nil for a reply that did not come in time. Servers may close at
      # any time (RFC 7766, section 6.2.4), so a query that failed on an older connection is sent
      # again.
      def exchange(queries, until_s)
        return once(queries, until_s) if Fiber.scheduler && !Fiber.current_scheduler # the reader may be a fiber that cannot run

        used = @connection
        connection = @lock.synchronize { @connection&.usable? ? @connection : @connection = connect(until_s) }
        begin
          connection.exchange(queries, until_s)
        rescue SystemCallError, IOError, TLS::Error
          raise unless connection.equal?(used)

          retry_on_new(connection, queries, until_s)
        end
      end

      def close
        @connection&.close
        @connection = nil
      end

      private

      def retry_on_new(failed, queries, until_s)
        @lock.synchronize { @connection = connect(until_s) if @connection.equal?(failed) }
        @connection.exchange(queries, until_s)
      end

      def once(queries, until_s)
        connection = connect(until_s)
        connection.exchange(queries, until_s)
      ensure
        connection&.close
      end

      def connect(until_s)
        transport = Gyre.connect("tcp://#{@server.authority}", timeout_s: [until_s - Clock.now, 0].max)
        if @server.protocol == "tls"
          transport.start_tls(@tls || (@own_tls ||= TLS.client(alpn: ["dot"])), name: @server.name || @server.host,
                                                                                timeout_s: [until_s - Clock.now, 0].max.ceil(2))
        end
        connected = Connection.new(transport)
      ensure
        transport&.abandon unless connected
      end

      # One connection with its queries.
      class Connection
        def initialize(transport)
          @transport = transport
          @waiting = {} # id => query
          @replies = {}.compare_by_identity # query => packet
          @input = "".b
          @turn = Thread::Mutex.new # to read
          @waiters = Waiters.new(self)
          @good = true
        end

        # False once a reply is late, or the server has ended the stream.
        def usable?
          return @good unless @good && @waiting.empty?
          return true if @transport.read_available.is_a?(Symbol)

          close
        rescue SystemCallError, TLS::Error
          close
        end

        def exchange(queries, until_s)
          queries.each do |query|
            query.renew while @waiting.key?(query.id)
            @waiting[query.id] = query
          end
          @transport.write_timeout_s = [until_s - Clock.now, 0.001].max
          packets = queries.map { |query| @transport.tls? ? query.padded : query.bytes }
          @transport.write(*packets.flat_map { |bytes| [[bytes.bytesize].pack("n"), bytes] })
          until queries.all? { |query| @replies.key?(query) } || (left_s = until_s - Clock.now) <= 0
            read_or_wait(queries, left_s)
          end
          queries.to_h { |query| [query, @replies[query]] }.tap { |found| @good &&= found.each_value.all? }
        ensure
          queries.each { |query| @waiting.delete(query.id) && @replies.delete(query) }
          close if !@good && @waiting.empty?
        end

        def close
          @good = false
          @transport.abandon
          false
        end

        # Shown by print_hierarchy for fibers that wait here.
        def label = "a reply of a name server"

        private

        def read_or_wait(queries, left_s)
          return @waiters.wait(left_s) { @turn.locked? && queries.none? { |query| @replies.key?(query) } } unless @turn.try_lock

          begin
            @transport.read_timeout_s = left_s
            read
          rescue TimeoutError
            nil
          ensure
            @turn.unlock
            @waiters.wake_all
          end
        end

        def read
          @input << (@transport.read_partial || raise(EOFError, "the name server ended the connection"))
          while @input.bytesize >= 2 && @input.bytesize >= 2 + (length = @input.unpack1("n"))
            packet = @input.slice!(0, 2 + length).byteslice(2, length)
            query = @waiting[packet.byteslice(0, 2)]
            @replies[query] = packet if query
          end
        rescue SystemCallError, IOError, TLS::Error
          @good = false
          raise
        end
      end
      private_constant :Connection
    end
  end
end
