# frozen_string_literal: true

# Restarts a server when a file is touched: `bin/rails restart` touches tmp/restart.txt. Handler and
# Gyre::CLI::ServeWorkers wait for it. Starts and stops nothing itself.

module Gyre
  module Web
    # One file and its last modification time.
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
