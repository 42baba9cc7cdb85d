# frozen_string_literal: true

# Watches a file whose change restarts a server, such as tmp/restart.txt, which `bin/rails restart`
# touches. Used by Handler and Gyre::CLI::ServeWorkers.

require "gyre/task"

module Gyre
  module Web
    module RestartFile
      PATH = "tmp/restart.txt"
      EVERY_S = 1

      module_function

      # Calls the block in a task each time the file is touched or created, not when it is deleted.
      def watch(path = PATH)
        Task.current.async("restart file", transient: true) do
          loop do
            before = time(path)
            sleep(EVERY_S) until (now = time(path)) && (before.nil? || now > before)
            yield
          end
        end
      end

      def time(path)
        File.mtime(path)
      rescue SystemCallError
        nil
      end
    end
  end
end
