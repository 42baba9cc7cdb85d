# frozen_string_literal: true

# Finds the program's own line in a backtrace, for print_hierarchy, watchdog and deadlocks.

require "rbconfig"

module Gyre
  class Inspection
    module Place
      OWN = File.expand_path("..", __dir__).freeze
      # Ruby's and gems' folders; read once, as Ractors may not ask RubyGems.
      LIBRARIES = [RbConfig::CONFIG["rubylibprefix"], *(Gem.path if defined?(Gem))].compact.map { |folder| "#{folder}/".freeze }.freeze
      private_constant :OWN, :LIBRARIES

      class << self
        # Returns file:line, relative below the working directory.
        def of(backtrace)
          frames = without_own(backtrace)
          frame = frames.find { |line| !line.start_with?(*LIBRARIES) } || frames.first or return
          frame[/\A.+?:\d+/].delete_prefix(present_folder)
        end

        def without_own(backtrace)
          backtrace.to_a.reject { |line| own?(line) }
        end

        # True for Gyre's and Ruby's lines.
        def own?(line) = line.start_with?("<internal:", "#{OWN}/", "#{OWN}.rb")

        private

        def present_folder
          "#{Dir.pwd}/"
        rescue SystemCallError
          "" # was removed
        end
      end
    end
  end
end
