# frozen_string_literal: true

# Ruby's hand on the C load client (connections.c): thousands of keep-alive connections held open by
# one process.

require_relative "setup"

module Bench
  # A running load client.
  class Connections
    Answer = Struct.new(:answered, :failed, :seconds)

    def self.hold(port, count)
      client = new(port, count)
      yield client
    ensure
      client&.close
    end

    def initialize(port, count)
      @io = IO.popen(["taskset", "-c", LOAD_CORE.to_s, Setup.connections, port.to_s, count.to_s], "r+")
    end

    # Connects all and asks for path once on each.
    def open(path, connecting:, unanswered:)
      tell("open #{path} #{connecting} #{unanswered}")
    end

    # Asks for path on every open connection at once.
    def ask(path)
      tell("ask #{path}")
    end

    def close
      @io.close
    end

    private

    def tell(command)
      @io.puts(command)
      line = @io.gets or raise Problem, "the load client ended at: #{command}"
      answered, failed, seconds = line.scan(/[\d.]+/)
      Answer.new(answered.to_i, failed.to_i, seconds.to_f)
    end
  end
end
