# frozen_string_literal: true

# How a server restarts after USR2: the command that started it, once more, checked before. Gyre::Log::Server calls it. It ends
# nothing: when the fresh copy could not start, the old one goes on.

require "rbconfig"

module Gyre
  module LogCommand
    # The command of this process.
    class Restart
      # Names, one a line, what the checked program need not be able to listen on: it would inherit that.
      INHERITED = "GYRE_LOG_INHERITED"

      # @param arguments [Array<String>] what followed `gyre log`
      # @param program [String]
      def initialize(arguments, program: $PROGRAM_NAME)
        @arguments = arguments
        @program = program
      end

      # Reads program and configuration as they are now, and sees whether it could listen.
      #
      # @param inputs [Array<String>] what the server listens for already
      # @return [Array<String>] for Process.exec
      # @return [String] why it must not be
      def call(inputs)
        said = IO.popen([{ INHERITED => inputs.join("\n") }, *command, "--check", err: %i[child out]], &:read)
        $?.success? ? command : said.strip.delete_prefix("gyre log: ")
      rescue SystemCallError => error
        error.message
      end

      private

      # Linux knows also what was said to Ruby itself, -I for instance.
      def command
        words = File.binread("/proc/self/cmdline").split("\0")
        said = [["log"], %w[log serve]].any? { |before| words.last(before.size + @arguments.size) == before + @arguments.map(&:b) }
        raise Errno::ENOENT unless said

        [RbConfig.ruby, *words.drop(1)]
      rescue Errno::ENOENT
        [RbConfig.ruby, File.expand_path(@program), "log", *@arguments]
      end
    end
  end
end
