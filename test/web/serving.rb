# frozen_string_literal: true

# Runs `gyre serve` as users do, in a process of its own, for the tests of the web door. No test
# itself.

require "fileutils"
require "net/http"
require "socket"
require "tmpdir"

module GyreTest
  # For test classes: a served app, and raw requests to it.
  module Serving
    # An app that does what the path names. It waits for files, so that tests need no guess of how
    # long something takes.
    APP = <<~'RUBY'
      run(lambda do |env|
        case env["PATH_INFO"]
        when "/wait" # until the file "go" is there
          puts "waiting"
          sleep 0.01 until File.exist?("go")
          [200, { "content-type" => "text/plain" }, ["done"]]
        when "/forever"
          begin
            puts "waiting"
            sleep
          ensure
            puts "cleaned up"
          end
        when "/raise" then raise "app trouble"
        when "/environment" then [200, { "content-type" => "text/plain" }, [ENV.fetch("RACK_ENV")]]
        else [200, { "content-type" => "text/plain" }, ["hello"]]
        end
      end)
    RUBY

    # A running `gyre serve`: what it printed, where it listens.
    class Program
      attr_reader :pid, :folder

      def initialize(test, pid, out, err, folder)
        @test = test
        @pid = pid
        @streams = { out: out, err: err }
        @texts = { out: +"", err: +"" }
        @folder = folder
      end

      def text(stream)
        io = @streams.fetch(stream)
        loop do
          chunk = io.read_nonblock(65_536, exception: false)
          break if chunk.nil? || chunk == :wait_readable

          @texts.fetch(stream) << chunk
        end
        @texts.fetch(stream)
      end

      # Waits until the stream has something like the pattern. `orphans`: the supervisor was killed,
      # and its workers write.
      def expect(pattern, stream = :out, orphans: false)
        @test.eventually(what: "#{pattern.inspect} on #{stream}") { text(stream).match(pattern) || (ended_early unless orphans) }
      rescue Minitest::Assertion => error
        raise error.exception("#{error.message}; it said:\n#{text(:out)}\n#{text(:err)}")
      end

      def urls
        text(:out).scan(/listening on (\S+)/).flatten
      end

      def port
        Integer(text(:out)[%r{listening on http://\S+:(\d+)\b}, 1])
      end

      def signal(name)
        Process.kill(name, pid)
      end

      # Reads meanwhile: a full pipe of the access log would hold up the program's end.
      def status
        @test.eventually(what: "the end of gyre serve") do
          @streams.each_key { |stream| text(stream) }
          @status ||= Process.wait2(pid, Process::WNOHANG)&.last
        end
      end

      # Opens a connection and sends a request, without waiting for anything.
      def request(path, socket: TCPSocket.new("127.0.0.1", port), connection: "close")
        socket.write("GET #{path} HTTP/1.1\r\nhost: localhost\r\nconnection: #{connection}\r\n\r\n")
        socket
      end

      def get(path, **options)
        socket = request(path, **options)
        socket.read
      ensure
        socket&.close
      end

      private

      # What it printed last is looked at once more before.
      def ended_early
        return (@status = Process.wait2(pid, Process::WNOHANG)&.last) && nil unless @status

        @test.flunk("gyre serve ended (#{@status})")
      end
    end

    # Serves `app` while the block runs; waits until it listens, unless `ready` is something else to
    # wait for.
    def serve(*flags, app: APP, env: {}, files: {}, ready: /Use Ctrl-C to stop/, port: true, mode: 0o700)
      Dir.mktmpdir do |folder|
        File.chmod(mode, folder)
        { "config.ru" => app, **files }.compact.each { |name, content| write(File.join(folder, name), content) }
        flags += ["-b", "tcp://127.0.0.1:0"] if port
        environment = { "APP_ENV" => nil, "RACK_ENV" => nil, "RAILS_ENV" => nil, "PORT" => nil, **env }
        with_subprocess(*ruby_command(Helpers::EXE, "serve", *flags, env: environment, gems: true), chdir: folder) do |pid, out, err|
          program = Program.new(self, pid, out, err, folder)
          program.expect(ready) if ready
          yield program
          Warnings.record_output(program.text(:err))
        end
      end
    end

    # A file; a script may be run.
    def write(path, content)
      FileUtils.mkdir_p(File.dirname(path))
      File.write(path, content, perm: content.start_with?("#!") ? 0o755 : 0o644)
    end

    # Runs `gyre` to its end.
    def gyre(*arguments, env: {}, files: {}, gems: false)
      Dir.mktmpdir do |folder|
        files.each do |name, content|
          path = File.join(folder, name)
          Dir.mkdir(File.dirname(path)) unless File.directory?(File.dirname(path))
          File.write(path, content)
        end
        ruby(Helpers::EXE, *arguments, env: env, gems: gems, chdir: folder)
      end
    end
  end
end
