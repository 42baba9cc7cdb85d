# frozen_string_literal: true

# How a server restarts after USR2: the command that started it, once more, checked before.
# Gyre::Log::Server calls it; Gyre::CLI::ServeWorkers takes the command. It ends nothing: when the
# fresh copy could not start, the old one continues.

require "rbconfig"

module Gyre
  module CLI
    # The command of this process.
    class Restart
      # Names, one a line, the inputs whose sockets the checked program would inherit, and need not
      # be able to listen on.
      INHERITED = "GYRE_LOG_INHERITED"

      # @param words [Array<String>] the arguments of this process
      # @param program [String]
      def initialize(words = ARGV, program: $PROGRAM_NAME)
        @words = words.dup
        @program = program
      end

      # Reads program and configuration as they are now, and checks whether it could listen.
      #
      # @param inputs [Array<String>] what the server listens for already
      # @return [Array<String>] for Process.exec
      # @return [String] why it must not be
      def call(inputs)
        printed = IO.popen([{ INHERITED => inputs.join("\n") }, *command, "--check", err: %i[child out]], &:read)
        $?.success? ? command : printed.strip.delete_prefix("gyre log: ")
      rescue SystemCallError => error
        error.message
      end

      # Linux has the flags of Ruby itself, too, -I for instance.
      #
      # @return [Array<String>] what starts this program
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
