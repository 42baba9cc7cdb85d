# frozen_string_literal: true

# Runs a load client that is written in C, bench/support/NAME.c, on the load's core.

require "timeout"
require_relative "setup"

module Bench
  # A load client and what it prints.
  module LoadClient
    LIMIT_S = 120

    module_function

    # Yields the load client while its clients are open.
    def hold(path, *arguments)
      run(path, *arguments) do |io|
        ready(io)
        yield io
      end
    end

    # Returns its figures ("messages=5 seconds=1.0") by name and the server's CPU time a message,
    # for the median of slices of a quarter of a second: what disturbs one of them does not count.
    def messages(io, server, seconds)
      slices = Array.new((seconds * 4).ceil) do
        before_s = server.tree.cpu_s
        io.puts(0.25)
        result = figures(io.gets.to_s)
        result.merge("cpu_us" => (server.tree.cpu_s - before_s) / result["messages"] * 1e6)
      end
      slices.sort_by { |slice| slice["cpu_us"] }[slices.size / 2]
    end

    def figures(text)
      figures = text.scan(/(\w+)=([\d.]+)/).to_h { |name, value| [name, value.to_f] }
      return figures if figures["messages"]&.positive?

      raise Problem, "the load client said: #{text}"
    end

    def ready(io)
      line = io.gets
      raise Problem, "the load client said: #{line}#{io.read}" unless line == "ready\n"
    end

    def run(path, *arguments)
      IO.popen(["taskset", "-c", LOAD_CORE.to_s, path, *arguments.map(&:to_s), { err: %i[child out] }], "r+") do |io|
        Timeout.timeout(LIMIT_S) { yield io }
      rescue Timeout::Error
        raise Problem, "the load client did not end within #{LIMIT_S} s"
      ensure
        Process.kill(:KILL, io.pid)
      end
    end
  end
end
