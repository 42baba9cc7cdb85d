# frozen_string_literal: true

# Log servers and clients as programs: the analogger gem's and ours, started alike, so that one
# scenario runs against both. Used by faults_test.rb, analogger_test.rb and the tests of `gyre log`.

require "io/wait"
require "socket"
require "yaml"
require "tmpdir"
require "fileutils"
require_relative "../support/certificates"

module GyreTest
  # Starts log servers and clients, and ends them with the test.
  module LogPeers
    ROOT = File.expand_path("../..", __dir__)

    # One of the two: how its server is started, and its client made by a program.
    Peer = Struct.new(:name, :server, :client, :new_client) do
      def to_s
        name.to_s
      end
    end

    # The load path of the analogger gem, without Bundler's start-up.
    GEM_PATHS = %w[analogger eventmachine].flat_map { |name| Gem::Specification.find_by_name(name).full_require_paths }.uniq.freeze
    THEIR_RUBY = [RbConfig.ruby, "-W0", *GEM_PATHS.map { |path| "-I#{path}" }].freeze
    OUR_RUBY = [RbConfig.ruby, "-w", "-I#{File.join(ROOT, "lib")}"].freeze

    # Makes a client of service "a" out of a port and a key.
    THEIR_CLIENT = 'def new_client(port, key = nil) = Swiftcore::Analogger::Client.new("a", "127.0.0.1", port.to_i, key)'
    OUR_CLIENT = <<~'RUBY'
      def new_client(port, key = nil)
        Gyre::Log::Client.new("a", port: port, key: key, spool: File.join(ENV["TMPDIR"], "spool"), retry_interval: 0.05..0.1, report: ->(_) {})
      end
    RUBY

    ANALOGGER = Peer.new(:analogger, [*THEIR_RUBY, Gem::Specification.find_by_name("analogger").bin_file("analogger")],
                         [*THEIR_RUBY, "-rswiftcore/Analogger/Client"], THEIR_CLIENT).freeze
    GYRE = Peer.new(:gyre, [*OUR_RUBY, File.join(ROOT, "exe", "gyre"), "log"], [*OUR_RUBY, "-rgyre/log/client"], OUR_CLIENT).freeze
    # Our client under the original's names, over the old protocol.
    NAMESAKE = Peer.new(:namesake, GYRE.server, [*OUR_RUBY, "-rgyre/log/analogger"], THEIR_CLIENT).freeze

    # A server with a folder of its own; its files are there, also what it prints.
    class Server
      attr_reader :peer, :port, :folder, :pid

      def initialize(test, peer, folder, config, out: nil)
        @test = test
        @peer = peer
        @folder = folder
        @port = Helpers.free_port
        @out = out
        @config = { "port" => @port, "host" => "127.0.0.1", "interval" => 0.1, "default_log" => "default.log" }
        configure(config)
      end

      # Changes its configuration; one that runs does not read it before it is asked to.
      def configure(settings)
        @config = @config.merge(settings)
        File.write(path("log.yml"), YAML.dump(@config))
      end

      def start(*arguments, env: {})
        out = @out || [path("out"), "a"]
        @pid = Process.spawn(env.merge("TMPDIR" => @folder), *@peer.server, "-c", "log.yml", *arguments,
                             in: File::NULL, out: out, err: [path("err"), "a"], chdir: @folder, pgroup: true)
        @test.eventually(within_s: 50, what: "#{@peer}'s server on port #{@port}: #{read("err")}") { listening? }
        self
      end

      def start_with_tls
        certificates = Certificates.new(@folder)
        certificate, key = certificates.issue("server")
        configure("tls" => { "cert" => certificate, "key" => key })
        start
        certificates
      end

      def stop(signal = :KILL)
        return unless @pid

        Process.kill(signal, @pid) unless gone?
        @test.eventually(what: "the end of #{@peer}'s server") { gone? }
        @pid = nil
        @status
      end

      # Returns whether it has ended by itself.
      def gone?
        @status = nil if @seen != @pid
        @seen = @pid
        @status ||= Process.wait2(@pid, Process::WNOHANG)&.last
        !@status.nil?
      end

      def path(name)
        File.join(@folder, name)
      end

      def read(name)
        File.binread(path(name))
      rescue Errno::ENOENT
        "".b
      end

      def lines(name = "default.log")
        read(name).scan(/.*\n/n).map(&:chomp)
      end

      # Returns what is behind time, service and severity.
      def messages(name = "default.log", service: nil)
        lines(name).filter_map do |line|
          _time, from, _severity, message = line.split("|", 4)
          message if service.nil? || from == service
        end
      end

      # Returns how often it has waited for something: turns of its loop, writes to the disk.
      def waits
        File.read("/proc/#{@pid}/status")[/^voluntary_ctxt_switches:\s+(\d+)/, 1].to_i
      end

      def memory
        File.read("/proc/#{@pid}/status")[/^VmRSS:\s+(\d+)/, 1].to_i * 1024
      end

      # Returns what the block returns, given a connection.
      def connect
        Socket.tcp("127.0.0.1", @port) { |socket| yield socket }
      end

      private

      def listening?
        raise "#{@peer}'s server has ended: #{read("err")}" if gone?

        # Ours heeds signals from the moment on at which it answers: here, by hanging up.
        Socket.tcp("127.0.0.1", @port) { |socket| @peer == GYRE && socket.tap(&:close_write).read }
        true
      rescue Errno::ECONNREFUSED, Errno::ECONNRESET
        false
      end
    end

    # A client that logs each line that it is sent, and reports that.
    class Client
      PROGRAM = <<~'RUBY'
        $stdout.sync = true
        client = new_client(*ARGV)
        puts "ready"
        $stdin.each_line(chomp: true) do |line|
          client.log("info", line)
          puts "logged"
        end
      RUBY

      def initialize(test, peer, folder, port, key)
        @test = test
        @input, input = IO.pipe
        out, @out = IO.pipe
        @err = File.join(folder, "client.err")
        command = [{ "TMPDIR" => folder, "LC_ALL" => "C.UTF-8" }, *peer.client, "-e", peer.new_client, "-e", PROGRAM, port.to_s, *key]
        @pid = Process.spawn(*command, in: @input, out: @out, err: [@err, "a"], pgroup: true)
        [@input, @out].each(&:close)
        @input = input
        @out = out
        said
      end

      def log(*messages)
        messages.each do |message|
          @input.puts(message)
          said
        end
      end

      def close
        @test.finish_process(@pid)
        [@input, @out].each(&:close)
      end

      private

      def said
        @out.wait_readable(45) or @test.flunk("the client hangs: #{File.read(@err)}")
        @out.gets or @test.flunk("the client has ended: #{File.read(@err)}")
      end
    end

    # Takes connections for a server. The first one ends, by a reset, at the first byte that its
    # client sends after the server has let it in; later ones pass.
    class CuttingProxy
      def initialize(target)
        @target = target
        @cuts = 1
        @threads = []
      end

      def listen(port)
        @listener = TCPServer.new("127.0.0.1", port)
        @threads << Thread.new { loop { serve(@listener.accept) } }
        self
      end

      def close
        @threads.each(&:kill).each(&:join)
        @listener&.close
      end

      private

      def serve(client)
        cut = @cuts.positive?
        @cuts -= 1
        @threads << Thread.new { carry(client, TCPSocket.new("127.0.0.1", @target), cut) }
      end

      def carry(client, server, cut)
        answered = false
        loop do
          IO.select([client, server]).first.each do |from|
            bytes = from.read_nonblock(65_536, exception: false)
            return if bytes.nil?
            next if bytes == :wait_readable
            return reset(client) if from == client && answered && cut

            answered ||= from == server
            (from == client ? server : client).write(bytes)
          end
        end
      rescue SystemCallError
        nil # one of the two has gone, and so does the other
      ensure
        [client, server].each(&:close)
      end

      def reset(socket)
        socket.setsockopt(Socket::Option.linger(true, 0))
      end
    end

    # Returns a frame of the old wire.
    def self.frame(service, severity, message)
      body = ":#{service}:#{severity}:#{message}".b
      format("%<n>04d%<n>04d", n: body.bytesize + 8) + body
    end

    def setup
      super
      @started = []
    end

    def teardown
      @started.reverse_each(&:call)
      super
    end

    def log_server(peer, config = {}, *arguments, start: true, **options)
      server = Server.new(self, peer, log_folder, config, **options)
      @started << -> { server.stop }
      start ? server.start(*arguments) : server
    end

    def log_client(peer, folder, port, key = nil)
      Client.new(self, peer, folder, port, key).tap { |client| @started << -> { client.close } }
    end

    # Returns a folder that goes with the test.
    def log_folder
      Dir.mktmpdir("gyre-log").tap { |folder| @started << -> { FileUtils.remove_entry(folder) } }
    end

    # Runs a program with a peer's client to its end.
    def run_client(peer, folder, code, *arguments)
      env = without_bundle.merge("TMPDIR" => folder, "LC_ALL" => "C.UTF-8")
      run_program(env, *peer.client, "-e", peer.new_client, "-e", code, *arguments.map(&:to_s))
    end
  end
end
