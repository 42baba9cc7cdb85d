# frozen_string_literal: true

# Ruby's hand on the C load client for log servers (log_load.c), on the load generator's core:
# floods, trickles, and whether everything is in the file. It has no server; a run is
# bounded in time.

require "timeout"
require_relative "setup"

module Bench
  # Starts log_load and reads its figures.
  module LogLoad
    LIMIT_S = 180

    module_function

    # Sends count numbered messages as fast as they are taken, and waits until they are in the file.
    def flood(port:, wire:, size:, count:, connections:, file:, &ready)
      run(["flood", port, wire, size, count, connections, file], ready)
    end

    # Sends rate messages a second on each connection, and notes how long each takes to the file.
    def trickle(port:, wire:, size:, rate:, connections:, file:, seconds:, watch:, &ready)
      run(["trickle", port, wire, size, rate, connections, file, seconds], ready, watch)
    end

    # Whether each message of a flood is in the file, from offset on, exactly once and as it was.
    def verify(file:, offset:, size:, count:, connections:)
      found = run(["verify", file, offset, size, count, connections])
      wrong = found.slice(:missing, :strange, :twice).reject { |_name, number| number.zero? }
      raise Problem, "not what was sent: #{wrong.map { |name, number| "#{number.to_i} #{name}" }.join(', ')}" unless wrong.empty?

      found[:disordered].to_i
    end

    # Words "name=value" of the program's last line.
    def run(arguments, ready = nil, watch = nil)
      command = ["taskset", "-c", LOAD_CORE.to_s, Setup.compiled("log_load"), *arguments.map(&:to_s)]
      io = IO.popen([*command, { err: %i[child out] }], "r+")
      text = Timeout.timeout(LIMIT_S) { converse(io, ready, watch) }
      figures = text.to_s.scan(/(\w+)=([-\d.]+)/).to_h { |name, value| [name.to_sym, value.to_f] }
      io.close
      return figures if $CHILD_STATUS.success?

      raise Problem, "the load client said: #{text.to_s.strip}"
    rescue Timeout::Error
      raise Problem, "the load client did not end within #{LIMIT_S} s"
    ensure
      finish(io)
    end

    def converse(io, ready, watch)
      if ready
        line = io.gets
        return line unless line == "ready\n"

        ready.call
        io.puts("go")
      end
      watch&.call until IO.select([io], nil, nil, watch ? 1 : nil)
      io.read
    end

    def finish(io)
      return if io.nil? || io.closed?

      Process.kill(:KILL, io.pid)
      io.close
    end
  end
end
