# frozen_string_literal: true

# A memcached that misbehaves as a test wants: the oracle's (test/oracle/memcached/server.rb) behind
# a listener, and between them a block that decides what each reply becomes.
require "openssl"
require "socket"
require "tmpdir"
require "fileutils"
require "oracle/memcached/server"

module GyreTest
  # Until `close`. A thread accepts, and one serves each connection; they end without Thread#kill.
  class ScriptedMemcached
    attr_reader :address
    # Returns all that came, in order.
    attr_reader :commands
    # Returns what came and was no command; the connection is closed then.
    attr_reader :wrong
    attr_reader :connections_count
    attr_accessor :script

    def initialize(unix: false, tls: nil, &script)
      @script = script
      @memory = MemcachedOracle::Server.new
      @commands, @wrong, @sockets = [], [], []
      @silence = Thread::Queue.new
      @connections_count = 0
      @context = server_context(*tls) if tls
      @folder = Dir.mktmpdir("gyre-scripted") if unix
      @listener = unix ? UNIXServer.new(File.join(@folder, "socket")) : TCPServer.new("127.0.0.1", 0)
      @address = unix ? @listener.path : "127.0.0.1:#{@listener.local_address.ip_port}"
      @ended, @end = IO.pipe
      @threads = [Thread.new { accept }]
    end

    def values
      @memory.items.transform_values(&:data)
    end

    def store(key, value, flags: 4)
      @memory.store(key, value.b, flags)
    end

    # Ends all connections, and goes on accepting.
    def disconnect
      @sockets.each { |socket| shut(socket) }
    end

    def close
      return unless @listener

      @silence.close
      @end.close
      @threads.shift.join
      disconnect
      @threads.each(&:join)
      [@ended, @listener].each(&:close)
      @listener = nil
      FileUtils.remove_entry(@folder) if @folder
    end

    private

    def accept
      until IO.select([@ended, @listener]).first.include?(@ended)
        socket = @listener.accept_nonblock(exception: false)
        next if socket == :wait_readable

        @sockets << socket
        number = (@connections_count += 1)
        @threads << Thread.new(socket, number) { |*connection| serve(*connection) }
      end
    end

    def serve(socket, number)
      stream = @context ? OpenSSL::SSL::SSLSocket.new(socket, @context).accept : socket
      bytes = "".b
      loop do
        bytes << stream.readpartial(65_536)
        ending = respond(stream, bytes, number)
        break finish(socket, ending) if ending
      end
    rescue SystemCallError, IOError, OpenSSL::SSL::SSLError
      nil # the client left, or close was called
    ensure
      socket.close
    end

    # With a script each reply leaves by itself, without one all of what has come together.
    def respond(stream, bytes, number)
      replies = "".b
      until (command = MemcachedOracle::Commands.first(bytes)).nil?
        return (@wrong << command) && :close if command.is_a?(String)

        bytes.replace(bytes.byteslice(command.bytesize..))
        @commands << command
        reply = @memory.reply(command)
        reply = @script.call(command, reply, number) if @script
        return reply if reply.is_a?(Symbol)

        replies << reply.b if reply
        write(stream, replies) if @script
      end
      write(stream, replies)
    end

    def write(stream, replies)
      stream.write(replies) unless replies.empty?
      replies.clear
      nil
    end

    def finish(socket, ending)
      socket.setsockopt(Socket::Option.linger(true, 0)) if ending == :reset
      @silence.pop if ending == :silent # until close is called
    end

    def shut(socket)
      socket.shutdown
    rescue IOError, SystemCallError
      nil # it has ended already
    end

    def server_context(certificate, key)
      context = OpenSSL::SSL::SSLContext.new
      context.add_certificate(OpenSSL::X509::Certificate.new(File.read(certificate)), OpenSSL::PKey.read(File.read(key)))
      context.tap(&:freeze)
    end
  end
end
