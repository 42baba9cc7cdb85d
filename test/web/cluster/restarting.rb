# frozen_string_literal: true

# Load on a cluster while it restarts: keep-alive clients that repeat nothing, so that each request
# without its response counts, and slow requests beside them. No test itself.

require "support/processes"
require_relative "../serving"

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

    # @param kinds [Array<String>] of KINDS, one restart each
    # @param quick [Integer] clients without a pause
    # @param slow [Integer] clients of slow requests
    def assert_no_request_is_lost(kinds, quick:, slow:)
      serve("-w", "2", "--log-format", "none", app: APP) do |program|
        clients = Array.new(quick) { Client.new(program.port, "/") } + Array.new(slow) { Client.new(program.port, "/slow") }
        before = descriptors(program.pid)
        yield program if block_given?
        kinds.each { |kind| restart(program, kind) }
        clients.each(&:finish).each(&:join)
        assert_empty clients.flat_map(&:failures)
        assert(clients.all? { |client| client.served.positive? })
        eventually(what: "as many descriptors as before") { descriptors(program.pid) <= before }
        children = Processes.children_of(program.pid)
        assert_equal 3, children.size, "a mold and two workers"
        assert_empty(children.select { |pid| Processes.ended?(pid) })
        program.signal(:TERM)
        assert_equal 0, program.status.exitstatus
        assert_empty(children.select { |pid| File.exist?("/proc/#{pid}") })
        assert_equal "", program.text(:err)
      end
    end

    private

    def restart(program, kind)
      done = /^#{kind.capitalize} restart: all workers run the new code$/
      before = program.text(:out).scan(done).size
      program.signal(KINDS.fetch(kind))
      eventually(within_s: 60, what: "a #{kind} restart") { program.text(:out).scan(done).size > before }
    end

    def descriptors(pid) = Dir.children("/proc/#{pid}/fd").size
  end
end
