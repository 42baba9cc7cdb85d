# frozen_string_literal: true

# Writes warnings through $stderr, so that only the warning fiber waits. Ruby calls fwrite(3) under
# the GVL: a stuck pipe would stop all threads.

module Gyre
  module CLI
    # Replaces Warning's own method, not those of modules that extend it.
    module Warnings
      def self.install = ::Warning.prepend(self)

      # Ignores a closed error stream, too.
      def warn(message, category: nil)
        $stderr.write(message) if category.nil? || ::Warning[category]
        nil
      rescue SystemCallError, IOError
        raise unless $stderr.equal?(STDERR)
      rescue ThreadError
        # Uses Ruby's way, without a lock, while another fiber has the stream's: a signal handler or
        # blocking fiber could not wait.
        $stderr.equal?(STDERR) ? super : raise
      end
    end
  end
end
