# frozen_string_literal: true

# Restarts a server after USR2: checks the command that started it, and returns it for
# `Process.exec`. Called by Gyre::Log::Server and Gyre::CLI::ServeWorkers.

require "rbconfig"

module Gyre
  module CLI
    class Restart
      # Names inputs whose sockets the checked program would inherit, one per line; it does not
      # listen on them.
      INHERITED = "GYRE_LOG_INHERITED"

      def initialize(words = ARGV, program: $PROGRAM_NAME)
        @words = words.dup
        @program = program
      end

      # Checks whether the program on disk can start. Returns a command for Process.exec, or why not
      # (String).
      def call(inputs)
        printed = IO.popen([{ INHERITED => inputs.join("\n") }, *command, "--check", err: %i[child out]], &:read)
        $?.success? ? command : printed.strip.delete_prefix("gyre log: ")
      rescue SystemCallError => error
        error.message
      end

      # With Ruby's own flags, such as -I, on Linux.
      def command
        words = File.binread("/proc/self/cmdline").split("\0")
        raise Errno::ENOENT unless words.last(@words.size) == @words.map(&:b)

        [RbConfig.ruby, *words.drop(1)]
      rescue Errno::ENOENT
        [RbConfig.ruby, File.expand_path(@program), *@words]
      end
    end
  end
end
