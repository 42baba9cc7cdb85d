# frozen_string_literal: true

# Debian's memcached for tests, on a free port of 127.0.0.1 or on a Unix socket in a folder of its
# own: plain, over TLS, with users. A test kills, stops and continues it; the end of the test ends
# it.
require "fileutils"
require "openssl"
require "socket"
require "tmpdir"

module GyreTest
  # A server until `close`. With no arguments it is plain, on TCP.
  class MemcachedServer
    attr_reader :port
    attr_reader :path
    attr_reader :pid

    def initialize(program = "memcached", unix: false, tls: nil, users: nil, value_bytes_limit: nil, memory_mb: 64, evict: true, arguments: [])
      @program = program
      @folder = Dir.mktmpdir("gyre-memcached")
      @path = File.join(@folder, "socket") if unix
      @tls = tls
      @users = users
      @arguments = ["-m", memory_mb.to_s, "-t", "2", "-U", "0", *arguments]
      @arguments.push("-u", "root") if Process.uid.zero?
      @arguments.push("-I", value_bytes_limit.to_s) if value_bytes_limit
      @arguments.push("-M") unless evict
      @arguments.push("-Z", "-o", "ssl_chain_cert=#{tls[0]},ssl_key=#{tls[1]}") if tls
      @arguments.push("-Y", write_users) if users
      start
    rescue StandardError
      close
      raise
    end

    # Starts it where it was before: the same port, or the same path, and nothing in its memory.
    def start
      @pid = Process.spawn(@program, *@arguments, *listen, in: File::NULL, out: File::NULL, err: [log, "w"])
      sleep 0.002 until answers?
      self
    end

    def address
      @path || "127.0.0.1:#{@port}"
    end

    # SIGKILL; the kernel closes its connections.
    def kill
      Process.kill(:KILL, @pid)
      Process.wait(@pid)
      @pid = nil
    end

    # SIGSTOP: it accepts, in the kernel, and answers nothing.
    def stop
      Process.kill(:STOP, @pid)
      Process.wait(@pid, Process::WUNTRACED)
    end

    # SIGCONT
    def continue
      Process.kill(:CONT, @pid)
    end

    # Sends a text as it is on a connection of its own, and reads lines until one ends the reply.
    def call(text)
      socket = connect
      log_in(socket) if @users
      socket.write(text)
      reply = +""
      reply << (socket.gets("\r\n") || break) until reply.match?(/^(?:END|HD|EN|NF|NS|EX|MN|OK|STORED|DELETED|VERSION.*|RESET|.*ERROR.*)\r\n\z/)
      reply
    ensure
      socket&.close
    end

    def stats
      call("stats\r\n").scan(/^STAT (\S+) (.*)\r$/).to_h
    end

    # Returns the clients' connections at this time, without the one that asks.
    def connections_count
      stats.fetch("curr_connections").to_i - 1
    end

    def close
      kill if @pid
      FileUtils.remove_entry(@folder) if File.exist?(@folder)
    end

    private

    def listen = @path ? ["-s", @path] : ["-l", "127.0.0.1", "-p", (@port ||= Helpers.free_port).to_s]

    def answers?
      if Process.wait(@pid, Process::WNOHANG)
        @pid = nil
        raise "memcached ended at once: #{File.read(log)}"
      end

      call("version\r\n").start_with?("VERSION")
    rescue SystemCallError, OpenSSL::SSL::SSLError
      false
    end

    def connect
      return UNIXSocket.new(@path) if @path

      socket = TCPSocket.new("127.0.0.1", @port)
      return socket unless @tls

      OpenSSL::SSL::SSLSocket.new(socket).tap { |secure| secure.sync_close = true }.connect
    rescue OpenSSL::SSL::SSLError
      socket&.close
      raise
    end

    def log_in(socket)
      words = @users.first.join(" ")
      socket.write("set auth 0 0 #{words.bytesize}\r\n#{words}\r\n")
      raise "memcached refuses its own user" unless socket.gets == "STORED\r\n"
    end

    def write_users
      file = File.join(@folder, "users")
      File.write(file, @users.map { |name, password| "#{name}:#{password}\n" }.join)
      file
    end

    def log = File.join(@folder, "log")
  end

  # For test classes: servers that end with the test.
  module MemcachedServers
    def memcached(**options)
      (@memcached_servers ||= []) << MemcachedServer.new(need_program("memcached"), **options)
      @memcached_servers.last
    end

    def secure_memcached(**options)
      memcached(tls: Transports.identity("memcached"), **options)
    end

    def teardown
      @memcached_servers&.each(&:close)
      super
    end
  end
end
