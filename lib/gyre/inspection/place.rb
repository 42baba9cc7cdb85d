# frozen_string_literal: true

# Where a program is: the line of a backtrace that is the program's own. For print_hierarchy, the
# watchdog and the search for deadlocks.

require "rbconfig"

module Gyre
  class Inspection
    # Finds the program's own line among those of libraries.
    module Place
      OWN = File.expand_path("..", __dir__).freeze
      # Ruby's own folders, and the gems'. Asked for once: a Ractor may not ask RubyGems.
      LIBRARIES = [RbConfig::CONFIG["rubylibprefix"], *(Gem.path if defined?(Gem))].compact.map { |folder| "#{folder}/".freeze }.freeze
      private_constant :OWN, :LIBRARIES

      class << self
        # @param backtrace [Array<String>, nil]
        # @return [String, nil] file:line; relative to the present folder if it is below it
        def of(backtrace)
          frames = without_own(backtrace)
          frame = frames.find { |line| !line.start_with?(*LIBRARIES) } || frames.first or return
          frame[/\A.+?:\d+/].delete_prefix(present_folder)
        end

        # @param backtrace [Array<String>, nil]
        # @return [Array<String>] what is not Gyre itself
        def without_own(backtrace)
          backtrace.to_a.reject { |line| own?(line) }
        end

        # @param line [String] of a backtrace
        # @return [Boolean] whether it is in Gyre or in Ruby's own code
        def own?(line)
          line.start_with?("<internal:", "#{OWN}/", "#{OWN}.rb")
        end

        private

        def present_folder
          "#{Dir.pwd}/"
        rescue SystemCallError
          "" # it was removed
        end
      end
    end
  end
end
