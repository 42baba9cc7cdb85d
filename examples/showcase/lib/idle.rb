# frozen_string_literal: true

# Thousands of idle connections, opened to this server by a child process, and the server's memory
# meanwhile. Reports line by line (JSON, an object a line); at the end the child ends with its
# connections.

require "json"
require "rbconfig"
require_relative "memory"
require_relative "own_server"

module Showcase
  # GET /idle
  class Idle
    HEADERS = { "content-type" => "application/x-ndjson", "cache-control" => "no-store" }.freeze
    MOST = 10_000
    # Descriptors for everything else in the server.
    OTHERS = 200
    HELD_S = 3
    # Connects, and keeps the connections until its input ends.
    CHILD = <<~'RUBY'
      host, port, count = ARGV
      Process.setrlimit(:NOFILE, Process.getrlimit(:NOFILE).last)
      $stdout.sync = true
      connections = (1..Integer(count)).map do |number|
        TCPSocket.new(host, Integer(port)).tap { puts number if (number % 250).zero? }
      end
      $stdin.read
    RUBY

    def initialize
      @lock = Mutex.new # one visitor at a time
    end

    def call(env)
      address = OwnServer.address(env)
      [200, HEADERS.dup, ->(stream) { answer(stream, address) }]
    end

    private

    def answer(stream, address)
      @lock.synchronize { hold(stream, address) }
    ensure
      stream.close
    end

    def hold(stream, address)
      count = [MOST, Process.getrlimit(:NOFILE).first - OTHERS].min
      tell(stream, event: "begin", connections: 0, of: count)
      child = IO.popen([RbConfig.ruby, "--disable-gems", "-rsocket", "-e", CHILD, *address.map(&:to_s), count.to_s], "r+")
      while (number = child.gets)
        tell(stream, event: "open", connections: Integer(number))
        break if Integer(number) > count - 250
      end
      sleep HELD_S
      tell(stream, event: "done", connections: Integer(number || 0))
    ensure
      child&.close # waits for its end
    end

    def tell(stream, **news)
      stream.write("#{JSON.generate(news.merge(resident_bytes: Memory.resident_bytes))}\n")
    end
  end
end
