# frozen_string_literal: true

# QUIT, and INFO where the system has it (Ctrl-T on BSD and macOS): a process of a web server prints
# its tasks, what they wait for and where. Gyre::Web::Server and the supervisor of a cluster handle
# them. Nothing is ended by it.

require "stringio"
require "gyre/clock"
require "gyre/inspection/hierarchy"
require "gyre/signals"

module Gyre
  module Web
    # See the head of this file.
    module TaskSignal
      NAMES = (%w[QUIT INFO] & Signal.list.keys).freeze
      # A terminal sends QUIT to each process, and the supervisor to its workers once more.
      ONCE_IN_S = 1

      # @param print [#call] called in a thread of its own
      # @yield meanwhile the signals are handled
      # @return [Object] the block's value
      def self.handle(print: method(:print), &block)
        last = -ONCE_IN_S
        on_signal = lambda do |_name|
          next if Clock.now - last < ONCE_IN_S

          last = Clock.now
          Thread.new { print.call } # a handler must take no lock
        end
        Signals.handle(NAMES, on_signal, &block)
      end

      # @param out [IO] gets all of it with one write
      # @return [void]
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
