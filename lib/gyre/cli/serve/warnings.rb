# frozen_string_literal: true

# Writes warnings through $stderr, so that only the fiber that warns waits. Ruby's own method calls
# fwrite(3) under the GVL: a stuck pipe would stop all threads.

module Gyre
  module CLI
    # Replaces Warning's own method, but not the methods of modules that extend Warning.
    module Warnings
      def self.install = ::Warning.prepend(self)

      # Ignores write errors of the original error stream.
      def warn(message, category: nil)
        $stderr.write(message) if category.nil? || ::Warning[category]
        nil
      rescue SystemCallError, IOError
        raise unless $stderr.equal?(STDERR)
      rescue ThreadError
        # Another fiber holds the stream's lock, for which a signal handler or blocking fiber cannot
        # wait. Ruby's own method, called by super, takes no lock.
        $stderr.equal?(STDERR) ? super : raise
      end
    end
  end
end
