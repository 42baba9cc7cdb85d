# frozen_string_literal: true

# What the tests of outputs that stand still or are away ask of a log server: records and frames for
# it, clients with an identity, an output's state, and the program itself. For test cases that have
# GyreTest::Helpers.
require "support/log_server"
require "oracle/log/records"

module GyreTest
  # Included by test cases.
  module LogOutputs
    # Returns the state of the output whose address has this in it.
    def output(server, name)
      server.server.status[:outputs].find { |output| output[:output].include?(name) }
    end

    def frame(service, message, severity: "info")
      Gyre::Log::Wire.frame(service, severity, message)
    end

    def record(number, message = "m#{number}", service: "far")
      Gyre::Log::Records.encode(seq: number, time_us: 1, service: service, severity: "info", message: message)
    end

    def acknowledged(server, service, id: "a")
      server.client(service, words: "authentication/2 client=#{id * 32}")
    end

    # As a client does: again, when it is sent away.
    def let_in(server, service, id: "a")
      acknowledged(server, service, id: id)
    rescue RuntimeError
      nil
    end

    # Runs `gyre log -c CONFIG` until the block has ended.
    def with_program(config, **options)
      with_subprocess(*ruby_command(GyreTest::Helpers::EXE, "log", "-c", config), **options) do |pid, out, err|
        port = nil
        port = err.gets[/listens on \S+:(\d+)/, 1] until port
        yield port.to_i, pid, out, err, -> { Process.wait2(pid).last }
      end
    end
  end
end
