# frozen_string_literal: true

# A network between writers and server that does what networks do: cuts connections in the midst of
# a record, delivers byte by byte, holds back what comes or what is answered, and stalls. A forked
# process with threads, started by GyreTest::LogCrash::World; it looks at no protocol.

require "socket"

module GyreTest
  module LogCrash
    # One proxy. After USR1 it is a good network. It cuts, but it changes nothing.
    class BadNetwork
      READ_BYTES = 65_536

      def initialize(listener, port, seed)
        @listener, @port, @random = listener, port, Random.new(seed)
        @good = false
        @open = {}.compare_by_identity
      end

      def run
        trap("USR1") { @good = true }
        Thread.new { become_good }
        loop do
          client = @listener.accept
          seed = @random.rand(1 << 30)
          Thread.new { serve(client, Random.new(seed)) }
        end
      end

      private

      # Connections of the bad time are cut once more.
      def become_good
        sleep 0.01 until @good
        @open.keys.each { |socket| close(socket) }
      end

      def serve(client, random)
        server = Socket.tcp("127.0.0.1", @port)
        [client, server].each { |socket| socket.setsockopt(:TCP, :NODELAY, true) }
        @open[client] = @open[server] = true
        up = Thread.new { carry(client, server, random.rand(1 << 30)) }
        carry(server, client, random.rand(1 << 30))
        up.join
      rescue SystemCallError
        nil # the server is away
      ensure
        [client, server].compact.each { |socket| close(socket) }
      end

      # One direction, until one side ends or bad luck strikes.
      def carry(from, to, seed)
        random = Random.new(seed)
        left = @good ? Float::INFINITY : 10**(random.rand * 5.5)
        while (bytes = from.readpartial(READ_BYTES))
          return strike(bytes, to, left.to_i, random) if !@good && bytes.bytesize > left

          to.write(bytes)
          left -= bytes.bytesize
        end
      rescue SystemCallError, IOError
        nil
      ensure
        [from, to].each { |socket| close(socket) }
      end

      def strike(bytes, to, left, random)
        to.write(bytes.byteslice(0, left))
        rest = bytes.byteslice(left..)
        case random.rand(4)
        when 0 then return # cut
        when 1 then rest.slice!(0, 300).each_byte { |byte| to.write(byte.chr) }
        when 2 then sleep(random.rand * 0.2)
        else sleep(random.rand) # longer than the writers' patience
        end
        to.write(rest.byteslice(0, random.rand(rest.bytesize + 1)))
      end

      def close(socket)
        socket.close
      rescue SystemCallError, IOError
        nil
      ensure
        @open.delete(socket)
      end
    end
  end
end
