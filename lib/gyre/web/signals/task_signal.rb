# frozen_string_literal: true

# QUIT, and INFO if the system has it (Ctrl-T on BSD and macOS): a web server's process prints its
# tasks, with their waits and places. Handled by Gyre::Web::Server and a cluster's supervisor. Ends
# nothing.

require "stringio"
require "gyre/clock"
require "gyre/inspection/hierarchy"
require "gyre/signals"

module Gyre
  module Web
    module TaskSignal
      NAMES = (%w[QUIT INFO] & Signal.list.keys).freeze
      # A terminal sends QUIT to each process, and the supervisor to its workers once more.
      ONCE_IN_S = 1

      # `print` is called in a thread of its own.
      def self.handle(print: method(:print), &block)
        last = -ONCE_IN_S
        on_signal = lambda do |_name|
          next if Clock.now - last < ONCE_IN_S

          last = Clock.now
          Thread.new { print.call } # a handler must take no lock
        end
        Signals.handle(NAMES, on_signal, &block)
      end

      # One write.
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
