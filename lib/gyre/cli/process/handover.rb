# frozen_string_literal: true

# Takes what a former program in this process has handed over (USR2), or in a rehearsal, what the
# running program would hand over. Made by servers before they load anything that starts programs.
# Gyre::CLI::Successor is the other side.

module Gyre
  module CLI
    # The former program's state. It has one of `sets` or `listeners`, with their descriptors.
    class Handover
      # Environment: "<descriptor> <pid>", for the process with this pid or a rehearsing child.
      VARIABLE = "GYRE_HANDOVER"

      # Returns nil after an ordinary start. (A daemon stays a daemon across the exec.)
      def self.receive
        descriptor, pid = ENV.fetch(VARIABLE, "").split.map(&:to_i)
        new(descriptor, rehearsal: pid == Process.ppid) if [Process.pid, Process.ppid].include?(pid)
      end

      # In a `rehearsal`, sockets and files still belong to the parent.
      def initialize(descriptor, rehearsal:)
        require "json"
        ENV.delete(VARIABLE)
        @rehearsal = rehearsal
        file = IO.for_fd(descriptor, "rb")
        file.rewind
        text, signals = file.read.split("\0", 2)
        @left = JSON.parse(text)
        @signals = defined?(::GYRE_EARLY_SIGNALS) ? ::GYRE_EARLY_SIGNALS.concat(signals.bytes) : signals.bytes
        # Strings within the text have their quotes escaped.
        text.scan(/"descriptor":(\d+)/) { |(number)| IO.for_fd(number.to_i, autoclose: false).close_on_exec = true }
      ensure
        file&.close
      end

      def rehearsal? = @rehearsal

      # Returns a part of the state, such as "supervisor"; nil if it is missing.
      def [](name) = @left[name]

      # Sends this process the signals of the handover again, once the server handles signals.
      def signal_again = @signals.uniq.each { |number| Process.kill(number, Process.pid) }
    end
  end
end
