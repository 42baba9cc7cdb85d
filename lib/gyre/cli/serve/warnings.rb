# frozen_string_literal: true

# Writes Kernel#warn and Ruby's warnings through $stderr, so that only the fiber that warns waits.
# Ruby would call fwrite(3) under the GVL, and a pipe without a reader would stop all threads.

module Gyre
  module CLI
    # Replaces Warning's own method, but not the methods of modules that extend Warning.
    module Warnings
      def self.install
        ::Warning.prepend(self)
      end

      # Warns like Warning.warn, which also ignores a closed error stream.
      def warn(message, category: nil)
        $stderr.write(message) if category.nil? || ::Warning[category]
        nil
      rescue SystemCallError, IOError
        raise unless $stderr.equal?(STDERR)
      rescue ThreadError
        # Falls back to Ruby's own way, which takes no lock, while another fiber holds the stream's
        # lock. A signal handler or blocking fiber of the same thread could not wait for it.
        $stderr.equal?(STDERR) ? super : raise
      end
    end
  end
end
