# frozen_string_literal: true

# The servers that answer the clients of `bench/blocking` after half a second: an HTTP server and a
# relay to memcached in threads of the benchmark, Debian's programs on sockets in a folder of their
# own. Nothing is left of them after `stop`.

require "fileutils"
require "socket"
require "tmpdir"
require_relative "setup"
require_relative "../../test/support/postgres_server"

module Bench
  # Started once for all rows; one that is not there makes its rows unmeasured.
  class BlockingServers
    DELAY_S = 0.5
    UNPRIVILEGED = "nobody"

    # Returns where the servers are, for the measured process.
    attr_reader :environment

    # Returns why a server is not there.
    attr_reader :missing

    def initialize
      @environment = {}
      @missing = {}
      @folder = Dir.mktmpdir("gyre-blocking")
      FileUtils.chown(UNPRIVILEGED, nil, @folder) if Process.uid.zero?
      @pids = []
      @threads = []
      %i[http names postgres mysql redis memcached].each { |name| try(name) }
    end

    def stop
      @threads.each { |thread| thread.kill.join }
      @pids.each { |pid| Process.kill(:TERM, pid) }
      @pids.each { |pid| Process.wait(pid) }
      @postgres&.close
      FileUtils.rm_rf(@folder)
    end

    private

    def try(name)
      send("start_#{name}")
    rescue Problem, SystemCallError, RuntimeError => e
      @missing[name] = e.message.lines.first.chomp
    end

    def start_http
      @environment["BENCH_HTTP_PORT"] = serve do |client|
        nil until ["\r\n", nil].include?(client.gets)
        sleep DELAY_S
        client.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
      end
    end

    # A relay that holds requests with "slow" in them back.
    def start_memcached
      path = spawn_server("memcached", "memcached.sock") { |program, socket| [program, "-s", socket, "-a", "777", "-l", "127.0.0.1"] }
      @environment["BENCH_MEMCACHED_PORT"] = serve do |client|
        UNIXSocket.open(path) do |server|
          back = Thread.new { IO.copy_stream(server, client) }
          while (request = client.readpartial(4096))
            sleep DELAY_S if request.include?("slow")
            server.write(request)
          end
        ensure
          back&.kill&.join
        end
      end
    end

    def start_names
      @environment["BENCH_NAMES"] = Setup.compiled("slow_names", "-shared", "-fPIC", "-ldl")
    end

    def start_postgres
      programs = GyreTest::PostgresServer.programs || raise(Problem, "PostgreSQL is not installed")
      @postgres = GyreTest::PostgresServer.new(programs)
      @environment["BENCH_POSTGRES"] = @postgres.folder
    end

    def start_redis
      @environment["BENCH_REDIS"] = spawn_server("redis-server", "redis.sock") do |program, socket|
        [program, "--port", "0", "--unixsocket", socket, "--dir", @folder, "--save", ""]
      end
    end

    # root without a password, as --skip-grant-tables has it.
    def start_mysql
      data = File.join(@folder, "mysql")
      install = Setup.program("mariadb-install-db") || raise(Problem, "MariaDB is not installed")
      Setup.run({}, *as_user(install, "--no-defaults", "--datadir=#{data}", "--auth-root-authentication-method=normal", "--skip-test-db"))
      @environment["BENCH_MYSQL"] = spawn_server("mariadbd", "mysql.sock") do |program, socket|
        [program, "--no-defaults", "--datadir=#{data}", "--socket=#{socket}", "--skip-networking", "--skip-grant-tables", "--pid-file=#{data}/pid"]
      end
    end

    # Returns the port of a server that runs the block in a thread for each connection.
    def serve
      server = TCPServer.new("127.0.0.1", 0)
      @threads << Thread.new do
        loop do
          Thread.new(server.accept) do |client|
            yield client
          rescue SystemCallError, IOError
            nil # the client has left
          ensure
            client.close
          end
        end
      end
      server.local_address.ip_port.to_s
    end

    # Returns the socket's path, once the server accepts.
    def spawn_server(name, socket)
      program = Setup.program(name) || raise(Problem, "#{name} is not installed")
      path = File.join(@folder, socket)
      log = File.join(@folder, "#{name}.log")
      pid = Process.spawn(*as_user(*yield(program, path)), in: File::NULL, out: log, err: %i[child out])
      @pids << pid
      until accepts?(path)
        @pids.delete(pid) && raise(Problem, "#{name} ended at once: #{File.read(log).lines.last}") if Process.wait(pid, Process::WNOHANG)
        sleep 0.02
      end
      path
    end

    def accepts?(path)
      UNIXSocket.open(path) { true }
    rescue SystemCallError
      false
    end

    def as_user(*command)
      Process.uid.zero? ? ["setpriv", "--reuid=#{UNPRIVILEGED}", "--clear-groups", *command] : command
    end
  end
end
