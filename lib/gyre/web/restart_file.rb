# frozen_string_literal: true

# Restarts a server when a file is touched: `bin/rails restart` touches tmp/restart.txt. For Handler
# and Gyre::CLI::ServeWorkers.

module Gyre
  module Web
    module RestartFile
      PATH = "tmp/restart.txt"
      EVERY_S = 1

      module_function

      # Returns after the file is touched or made, not after it is deleted.
      def wait(path = PATH)
        before = time(path)
        sleep(EVERY_S) until (now = time(path)) && (before.nil? || now > before)
      end

      def time(path)
        File.mtime(path)
      rescue SystemCallError
        nil
      end
    end
  end
end
