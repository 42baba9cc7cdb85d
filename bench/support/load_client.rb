# frozen_string_literal: true

# Runs a load client that is written in C, bench/support/NAME.c, on the load's core.

require "timeout"
require_relative "setup"

module Bench
  # A load client and what it prints.
  module LoadClient
    LIMIT_S = 120

    module_function

    # Returns the figures that it prints ("echoes=5 seconds=1.0") by name; `counted` has to be
    # there. With a block it opens its clients first, and goes on when the block returns.
    def measure(path, *arguments, counted:)
      text = run(path, *arguments) do |io|
        if block_given?
          ready(io)
          yield
          io.puts
        end
        io.read
      end
      figures = text.scan(/(\w+)=([\d.]+)/).to_h { |name, value| [name, value.to_f] }
      return figures if figures[counted]&.positive?

      raise Problem, "the load client said: #{text}"
    end

    # Yields while its clients are open.
    def hold(path, *arguments)
      run(path, *arguments) do |io|
        ready(io)
        yield
      end
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
