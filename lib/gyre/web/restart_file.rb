# frozen_string_literal: true

# Restarts a server when a file is touched: `bin/rails restart` touches tmp/restart.txt. For Handler
# and Gyre::CLI::ServeWorkers.

module Gyre
  module Web
    # A file and its modification time.
    class RestartFile
      PATH = "tmp/restart.txt"
      EVERY_S = 1

      def initialize(path = PATH)
        @path = path
        @time = time
      end

      # A deleted file does not count as touched.
      def touched?
        now = time
        !now.nil? && (@time.nil? || now > @time)
      end

      # Returns after the file is touched.
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
