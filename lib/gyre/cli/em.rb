# frozen_string_literal: true

# `gyre em`: runs an unchanged EventMachine program on Gyre's loop. Puts the folder of Gyre's own
# eventmachine first in the load path, and registers it as a gem for gems that depend on it.

require "gyre/cli"

module Gyre
  module CLI
    module EM
      HELP = <<~TEXT
        Runs a Ruby program on Gyre's reactor where it requires eventmachine.

        Usage: gyre em PROGRAM [arguments]

        PROGRAM is a file, or a Ruby command in the PATH (gyre em thin start).
      TEXT
      DROP_IN = File.expand_path("../event_machine/features", __dir__)

      class << self
        # Loads the program and returns at its end. Catches neither its exceptions nor its exit.
        def start(arguments, out: $stdout, err: $stderr, input: nil) # rubocop:disable Lint/UnusedMethodArgument
          program, *rest = arguments
          if program.nil? || %w[-h --help].include?(program)
            out.puts(HELP)
            err.puts("gyre em: PROGRAM is missing") unless program
            return program ? DONE : MISUSED
          end
          unless path = find(program)
            err.puts("gyre em: #{program}: no such file, and no command of that name in the PATH")
            return FAILED
          end

          replace_eventmachine
          ARGV.replace(rest)
          $PROGRAM_NAME = path
          define_data(path)
          load path
          DONE
        end

        private

        def find(program)
          return File.expand_path(program) if File.file?(program)
          return if program.include?("/")

          ENV.fetch("PATH", "").split(File::PATH_SEPARATOR).map { |folder| File.join(folder, program) }.find { |path| File.file?(path) }
        end

        # DATA is the program's text after __END__, as for the program that Ruby is started with.
        def define_data(path)
          file = File.open(path, "rb")
          return file.close unless file.each_line.any? { |line| line.chomp == "__END__" }

          Object.const_set(:DATA, file.set_encoding(Encoding.default_external))
        end

        def replace_eventmachine
          $LOAD_PATH.unshift(DROP_IN)
          return if Gem.loaded_specs.key?("eventmachine")

          stub = Gem::Specification.load(File.join(DROP_IN, "eventmachine.gemspec"))
          Gem::Specification.stubs_for("eventmachine") << stub # the scripts that RubyGems installs look for it
          Gem.loaded_specs["eventmachine"] = stub
        end
      end
    end
  end
end
