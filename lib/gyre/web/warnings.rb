# frozen_string_literal: true

# Kernel#warn and Ruby's own warnings in a process that serves. Ruby writes them by fwrite(3) with
# the interpreter's lock, so that a pipe which nothing reads would stop every thread and fiber of
# the process. Through $stderr only the fiber that warns has to wait.

module Gyre
  module Web
    # Takes the place of Warning's own method, below those that an app or a gem extends Warning by.
    module Warnings
      # From now on.
      #
      # @return [void]
      def self.install
        ::Warning.prepend(self)
      end

      # As Warning.warn.
      #
      # @param message [String] with its line end
      # @param category [Symbol, nil] one that is off is not written
      # @return [nil] also where the error stream is closed, or nothing reads it any more: Ruby's
      #   own method ignores that, too
      # @raise [ArgumentError] for an unknown category
      def warn(message, category: nil)
        $stderr.write(message) if category.nil? || ::Warning[category]
        nil
      rescue SystemCallError, IOError
        raise unless $stderr.equal?(STDERR)
      rescue ThreadError
        # Another fiber waits for the pipe and has the stream's lock, for which a signal's handler,
        # or a blocking fiber of the same thread, cannot wait. Ruby's own way needs no lock.
        $stderr.equal?(STDERR) ? super : raise
      end
    end
  end
end
