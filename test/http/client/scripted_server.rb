# frozen_string_literal: true

# A server of the client's tests that says what a test tells it, byte by byte, each connection in a
# thread. No test itself.

require "socket"
require "support/h2_client"

module GyreTest
  # For test classes.
  module ScriptedServer
    # The server's end of a connection, for a script.
    class Peer
      def initialize(server, socket, under = nil)
        @server = server
        @socket = socket
        @under = under
      end

      # The next request's head; nil at the end.
      def head
        @socket.gets("\r\n\r\n")&.tap { |head| @server.note(head) }
      end

      # Returns a peer that speaks by a stream over this connection, such as TLS.
      def over(stream) = Peer.new(@server, stream, self)

      # Returns two connected sockets, which the server closes at its end.
      def pair = @server.keep { UNIXSocket.pair }

      # Passes on all that the client says.
      def copy_to(stream)
        IO.copy_stream(@socket, stream)
        stream.close_write
      rescue IOError, SystemCallError
        nil # one of both has closed
      end

      def read(length) = @socket.read(length)
      def line = @socket.gets("\r\n")

      # The next frame of HTTP/2; nil at the end.
      def frame
        head = read(9)
        return unless head&.bytesize == 9

        high, low, type, flags, stream = head.unpack("nCCCN")
        H2::Frame.new(H2::TYPES[type] || type, flags, stream, read((high << 8) | low))
      end

      def write(*bytes)
        @socket.write(*bytes)
        true
      end

      def reset
        return @under.reset if @under

        @socket.setsockopt(:SOCKET, :LINGER, [1, 0].pack("ii"))
        @socket.close
      end

      def end_writing
        @socket.close_write
        true
      end

      # Ends its side, and takes the rest of the client's.
      def finish
        @socket.close_write
        @socket.read
      end

      def close
        @socket.close
        true
      end
    end

    # What a test sees of it.
    class Server
      attr_reader :accepted, :closed, :last_head, :heads

      def initialize(listener, script)
        @listener = listener
        @script = script
        @accepted = @closed = @heads = 0
        @sockets = []
        @threads = []
        @threads << Thread.new { loop { serve(accept) if IO.select([@listener]) } }
        @threads.first.report_on_exception = false
      end

      def url = "http://127.0.0.1:#{@listener.local_address.ip_port}"

      def note(head)
        @last_head = head
        @heads += 1
      end

      # Closes sockets at the end: a kill must not lose them.
      def keep = Thread.handle_interrupt(Object => :never) { yield.tap { |sockets| @sockets.concat(sockets) } }

      def stop
        @threads.each(&:kill).each(&:join)
        [@listener, *@sockets].each(&:close)
      end

      private

      def accept = keep { [@listener.accept] }.first

      def serve(socket)
        @accepted += 1
        @threads << Thread.new do
          @script.call(Peer.new(self, socket))
        rescue IOError, SystemCallError
          nil # the client has closed
        ensure
          socket.close
          @closed += 1
        end
      end
    end

    def scripted(script, listener = TCPServer.new("127.0.0.1", 0))
      server = Server.new(listener, script)
      yield server
    ensure
      server.stop
    end
  end
end
