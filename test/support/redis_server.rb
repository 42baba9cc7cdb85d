# frozen_string_literal: true

# Debian's redis-server for tests, on a Unix socket in a folder of its own, and a way to it over TCP
# whose connections a test can cut.
require "fileutils"
require "socket"
require "tmpdir"
require "gyre/redis/wire"

module GyreTest
  # A server and its data, until `close`.
  class RedisServer
    attr_reader :path, :pid

    # Starts a server that also speaks TLS on a port of this machine, which `tls_port` returns.
    # `identity`: paths of certificate, key and authority.
    def self.with_tls(program, identity, **settings)
      files = %i[tls_cert_file tls_key_file tls_ca_cert_file].zip(identity).to_h
      new(program, tls_port: Helpers.free_port, tls_auth_clients: "no", **files, **settings)
    end

    def tls_port = @settings.fetch(:tls_port)

    def initialize(program, **settings)
      @program = program
      @folder = Dir.mktmpdir("gyre-redis")
      @path = File.join(@folder, "redis.sock")
      @settings = { port: 0, unixsocket: @path, dir: @folder, save: "", daemonize: "no", loglevel: "warning" }.merge(settings)
      start
    end

    def start
      options = @settings.flat_map { |name, value| ["--#{name.to_s.tr("_", "-")}", value.to_s] }
      @pid = Process.spawn(@program, *options, in: File::NULL, out: File::NULL, err: File::NULL)
      connect until answers?
    end

    def url(login = nil, database: nil)
      "redis+unix://#{login}#{@path}#{"?db=#{database}" if database}"
    end

    # Returns the reply to a command; errors as Strings.
    def call(*words)
      socket = UNIXSocket.new(@path)
      socket.write(resp.command(*words))
      reply = resp::Reader.new { socket.readpartial(65_536) }.read
      reply.is_a?(resp::Failure) ? reply.message : reply
    ensure
      socket&.close
    end

    def entries(stream)
      call("XRANGE", stream, "-", "+").map { |_, fields| fields.each_slice(2).to_h }
    end

    def kill
      Process.kill(:KILL, @pid)
      Process.wait(@pid)
      @pid = nil
    end

    def close
      kill if @pid
      FileUtils.remove_entry(@folder)
    end

    private

    def resp
      Gyre::Redis::Wire
    end

    def connect
      sleep 0.005
      raise "redis-server ended at once" if Process.wait(@pid, Process::WNOHANG)
    end

    def answers?
      ["PONG", /NOAUTH/].any? { |answer| answer === call("PING") }
    rescue SystemCallError, EOFError
      false
    end
  end

  # A TCP port that leads to a Unix socket. `cut` decides when a connection breaks: it is given the
  # direction (:request or :reply) and the bytes, and answers how many of them pass before that, or
  # nil for all.
  class Proxy
    attr_accessor :cut

    def initialize(path)
      @path = path
      @server = TCPServer.new("127.0.0.1", 0)
      @sockets = []
      @threads = [Thread.handle_interrupt(Object => :never) { Thread.new { accept } }] # see readable
    end

    def port
      @server.addr[1]
    end

    def close
      @threads.first.kill.join
      @threads.each { |thread| thread.kill.join }
      [@server, *@sockets].each(&:close)
    end

    private

    def accept
      loop do
        readable(@server)
        client = @server.accept_nonblock(exception: false)
        next if client == :wait_readable

        @sockets << client
        @sockets << (server = UNIXSocket.new(@path))
        @threads << Thread.new { pass(client, server) }
      end
    end

    def pass(client, server)
      loop do
        readable(client, server).each do |from|
          bytes = from.readpartial(65_536)
          count = @cut&.call(from == client ? :request : :reply, bytes)
          (from == client ? server : client).write(count ? bytes.byteslice(0, count) : bytes)
          return if count
        end
      end
    rescue SystemCallError, EOFError
      nil # one of both has left
    ensure
      [client, server].each(&:close)
    end

    # Here alone the threads may be killed: on Ruby 3.1 a descriptor that is just made, or closed,
    # would stay open.
    def readable(*ios)
      Thread.handle_interrupt(Object => :immediate) { IO.select(ios) }.first
    end
  end
end
