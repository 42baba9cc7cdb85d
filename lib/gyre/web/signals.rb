# frozen_string_literal: true

# Takes INT and TERM over while a server runs, and gives them back afterwards as they were.
# The block runs inside the signal handler: it may take no lock and must not wait.

module Gyre
  module Web
    # Signal handlers for the time of a block.
    module Signals
      # @param names [Array<String>]
      # @param on_signal [Proc] called with the signal's name, inside the signal handler
      # @yield while the handlers stand
      # @return [Object] the block's value
      def self.handle(names, on_signal)
        before = names.to_h { |name| [name, trap(name) { on_signal.call(name) }] }
        yield
      ensure
        # trap answers nil where the handler was not set by Ruby; its way back is the system's own.
        before&.each { |name, handler| trap(name, handler || "SYSTEM_DEFAULT") }
      end
    end
  end
end
