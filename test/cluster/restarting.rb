# frozen_string_literal: true

# Load on a cluster while it restarts: keep-alive clients that repeat nothing, so that each request
# without its response counts, and slow requests beside them. No test itself.

require "support/processes"
require "web/serving"

module GyreTest
  # For test classes beside Serving.
  module Restarting
    KINDS = { "rolling" => :USR1, "hot" => :USR2 }.freeze
    APP = <<~'RUBY'
      run(lambda do |env|
        sleep(0.3) if env["PATH_INFO"] == "/slow"
        [200, { "content-type" => "text/plain" }, ["hello"]]
      end)
    RUBY

    # One client: requests on one connection, a new one when the server has announced the end.
    class Client
      attr_reader :failures, :served

      def initialize(port, path)
        @port = port
        @path = path
        @served = 0
        @failures = []
        @thread = Thread.new { work until @done }
      end

      # Its present request is the last one.
      def finish = @done = true

      def join
        @thread.join
        @socket&.close
      end

      private

      def work
        @socket ||= TCPSocket.new("127.0.0.1", @port)
        @socket.write("GET #{@path} HTTP/1.1\r\nhost: localhost\r\n\r\n")
        head = @socket.gets("\r\n\r\n") or raise EOFError, "no response"
        body = @socket.read(head[/content-length: (\d+)/i, 1].to_i)
        raise "#{head.lines.first.chomp} #{body}" unless head.start_with?("HTTP/1.1 200") && body == "hello"

        @served += 1
        leave if head.match?(/^connection: close/i)
      rescue StandardError => error
        @failures << "#{@path}: #{error.class}: #{error.message}"
        leave
      end

      def leave
        @socket&.close
        @socket = nil
      end
    end

    # The same by wrk, on 32 connections. It runs until it is told to finish, not for a time of its
    # own: it would count each refused connection behind the server's end as an error.
    class Wrk
      attr_reader :failures, :served

      def initialize(path, port)
        @output = IO.popen([path, "-t1", "-c32", "-d900s", "--timeout", "30s", "http://127.0.0.1:#{port}/"])
      end

      # Returns whether it has come so far that {#finish} does not kill it.
      def ready? = Processes.catches?(@output.pid, :INT)

      def finish = Process.kill(:INT, @output.pid)

      def join
        text = @output.read
        @output.close
        @served = text[/(\d+) requests in/, 1].to_i
        @failures = text.lines(chomp: true).grep(/Socket errors|Non-2xx/).map { |line| "wrk: #{line.strip}" }
      end
    end

    def assert_no_request_is_lost(kinds, quick:, slow:, wrk: nil)
      serve("-w", "2", "--log-format", "none", app: APP) do |program|
        clients = Array.new(quick) { Client.new(program.port, "/") } + Array.new(slow) { Client.new(program.port, "/slow") }
        before = descriptors(program.pid)
        clients << start_wrk(wrk, program.port) if wrk
        begin
          kinds.each { |kind| restart(program, kind) }
        ensure
          clients.each(&:finish)
        end
        clients.each(&:join)
        assert_empty clients.flat_map(&:failures)
        assert(clients.all? { |client| client.served.positive? })
        eventually(what: "as many descriptors as before") { descriptors(program.pid) <= before }
        children = settled_children(program.pid)
        program.signal(:TERM)
        assert_equal 0, program.status.exitstatus
        assert_empty(children.select { |pid| File.exist?("/proc/#{pid}") })
        assert_equal "", program.text(:err)
      end
    end

    private

    def start_wrk(path, port)
      Wrk.new(path, port).tap { |wrk| eventually(what: "wrk's handler of SIGINT") { wrk.ready? } }
    end

    def restart(program, kind)
      done = /^#{kind.capitalize} restart: all workers run the new code$/
      before = program.text(:out).scan(done).size
      program.signal(KINDS.fetch(kind))
      eventually(within_s: 60, what: "a #{kind} restart") { program.text(:out).scan(done).size > before }
    end

    # A worker may serve before it is the supervisor's child: the mold forks it through a middle
    # process. What an older version leaves behind is there until the supervisor has reaped it.
    def settled_children(pid)
      children = []
      eventually(what: "a mold and two workers as the only children") do
        children = Processes.children_of(pid)
        children.size == 3 && children.none? { |child| Processes.ended?(child) }
      end
      children
    end

    def descriptors(pid) = Dir.children("/proc/#{pid}/fd").size
  end
end
