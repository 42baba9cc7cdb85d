# frozen_string_literal: true

# Restarts a server when a file is touched: `bin/rails restart` touches tmp/restart.txt. Handler and
# Gyre::CLI::ServeWorkers wait for it beside what they run. It starts and stops nothing by itself.

module Gyre
  module Web
    # One file and the time that it had.
    class RestartFile
      PATH = "tmp/restart.txt"
      EVERY_S = 1

      # @param path [String]
      def initialize(path = PATH)
        @path = path
        @time = time
      end

      # @return [Boolean] whether it was touched since; a file that is gone was not
      def touched?
        now = time
        !now.nil? && (@time.nil? || now > @time)
      end

      # Returns when it was touched.
      #
      # @return [void]
      def wait
        sleep(EVERY_S) until touched?
      end

      private

      def time
        File.mtime(@path)
      rescue SystemCallError
        nil
      end
    end
  end
end
