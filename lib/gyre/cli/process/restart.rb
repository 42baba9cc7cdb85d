# frozen_string_literal: true

# Finds the command that started a server, and checks whether it still works (USR2). Executes
# nothing but the check. Used by `gyre serve`, `gyre log` and `gyre dns`.

require "gyre/cli"
require "gyre/errors"
require "rbconfig"

module Gyre
  module CLI
    class Restart
      # Environment variable: inputs whose sockets the checked program would inherit, one on each
      # line. The check does not listen on these, and reads the configuration from standard input.
      INHERITED = "GYRE_LOG_INHERITED"
      # Environment variables that a restart keeps: Privileges and the handovers set them.
      KEPT = /\A(?:USER|LOGNAME|HOME|(?:GYRE|LISTEN)_\w+)\z/.freeze

      # Returns what leads from the present environment to that of the start, for a new process:
      # what configurations and rules have set meanwhile would hide newer values (`ENV["A"] ||= …`).
      def self.environment
        names = (ENV.keys | ENVIRONMENT.keys).grep_v(KEPT)
        names.to_h { |name| [name, ENVIRONMENT[name]] }.reject { |name, value| ENV[name] == value }
      end

      # The text of the configuration that was checked last; nil without a file.
      attr_reader :configuration

      # `read` returns the text of the configuration.
      def initialize(words = ARGV, program: $PROGRAM_NAME, read: nil)
        @words = words.dup
        @program = program
        @read = read
      end

      # Checks whether the program on disk can start. Returns a command for Process.exec, or a
      # String with the reason why not.
      def call(inputs)
        @configuration = @read&.call
        environment = { **Restart.environment, INHERITED => inputs.join("\n") }
        printed = IO.popen([environment, *command, "--check", err: %i[child out]], "r+") do |check|
          tell(check)
          check.read
        end
        $?.success? ? command : printed.strip.delete_prefix("gyre log: ")
      rescue SystemCallError, Error => error
        error.message
      end

      # Returns the command that started this process; on Linux with Ruby's own flags, such as -I.
      def command
        words = File.binread("/proc/self/cmdline").chomp("\0").split("\0", -1)
        raise Errno::ENOENT unless words.last(@words.size) == @words.map(&:b)

        [RbConfig.ruby, *words.drop(1)]
      rescue Errno::ENOENT
        [RbConfig.ruby, File.expand_path(@program), *@words]
      end

      private

      def tell(check)
        check.write(@configuration)
        check.close_write
      rescue Errno::EPIPE
        nil # it has failed already
      end
    end
  end
end
