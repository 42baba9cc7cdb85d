# frozen_string_literal: true

# Finds the command that started a server, and the environment of that start. Executes nothing. Used
# by Successor and for molds.

require "gyre/cli"
require "rbconfig"

module Gyre
  module CLI
    module Restart
      # Environment variables that a restart keeps: Privileges and the handovers set them.
      KEPT = /\A(?:USER|LOGNAME|HOME|(?:GYRE|LISTEN)_\w+)\z/.freeze

      module_function

      # Returns what leads from the present environment to that of the start, for a new process:
      # what configurations and rules have set meanwhile would hide newer values (`ENV["A"] ||= …`).
      def environment
        names = (ENV.keys | ENVIRONMENT.keys).grep_v(KEPT)
        names.to_h { |name| [name, ENVIRONMENT[name]] }.reject { |name, value| ENV[name] == value }
      end

      # Returns the command that started this process; on Linux with Ruby's own flags, such as -I.
      def command(own = ARGV, program: $PROGRAM_NAME)
        words = File.binread("/proc/self/cmdline").chomp("\0").split("\0", -1)
        raise Errno::ENOENT unless words.last(own.size) == own.map(&:b)

        [RbConfig.ruby, *words.drop(1)]
      rescue Errno::ENOENT
        [RbConfig.ruby, File.expand_path(program), *own]
      end
    end
  end
end
