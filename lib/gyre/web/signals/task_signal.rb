# frozen_string_literal: true

# Prints the process's tasks, waits and places at QUIT, and INFO where available (Ctrl-T on BSD and
# macOS). Used by Gyre::Web::Server and a cluster's supervisor.

require "stringio"
require "gyre/clock"
require "gyre/inspection/hierarchy"
require "gyre/signals"

module Gyre
  module Web
    module TaskSignal
      NAMES = (%w[QUIT INFO] & Signal.list.keys).freeze
      # A terminal signals each process, and the supervisor its workers again.
      ONCE_IN_S = 1

      # Calls `print` in a separate thread.
      def self.handle(print: method(:print), &block)
        last = -ONCE_IN_S
        on_signal = lambda do |_name|
          next if Clock.now - last < ONCE_IN_S

          last = Clock.now
          Thread.new { print.call } # a handler must take no lock
        end
        Signals.handle(NAMES, on_signal, &block)
      end

      # Prints by one write.
      def self.print(out = $stderr)
        text = StringIO.new
        text.puts "tasks of process #{Process.pid}:"
        Gyre.print_hierarchy(text, backtrace: true)
        out.write(text.string)
        out.flush
      rescue IOError, SystemCallError
        nil # nothing is left to write to
      end
    end
  end
end
