# frozen_string_literal: true

# How a server makes room for a fresh copy of its program in the same process (USR2): descriptors
# stay open across exec, and a text goes with them in a file without a name, whose descriptor stands
# in an environment variable. The handovers of the web server and of the log server call it, on both
# sides; what the text has is theirs.
#
# INT and TERM just before the exec are recorded after the text in that file
# (ext/gyre/cli/held_signals.c); exe/gyre traps later ones while the new program loads. One that
# comes while Ruby itself starts ends the process as it ends any Ruby program, by the signal or with
# status 1.

require "fcntl"
require "tempfile"

module Gyre
  module CLI
    module Successor
      # "<descriptor> <process>": for this process, not for a child that inherits the variable.
      VARIABLE = "GYRE_HANDOVER"
      # Signals that would end a process which has not trapped them yet.
      FATAL_SIGNALS = %w[HUP USR2].freeze

      class << self
        # True in a process that has replaced another server, already a daemon with its pidfile.
        def pending? = ENV.fetch(VARIABLE, "").split.last == Process.pid.to_s

        # True in a child that only tries to take its parent's place; sockets and files are the
        # parent's.
        def rehearsed? = ENV.fetch(VARIABLE, "").split.last == Process.ppid.to_s

        # Returns the text and the signals to end that came meanwhile; more may be added until the
        # server handles signals by itself.
        def receive
          file = IO.for_fd(Integer(ENV.delete(VARIABLE).split.first), "rb")
          file.rewind
          text, signals = file.read.split("\0", 2)
          early = defined?(::GYRE_EARLY_SIGNALS) ? ::GYRE_EARLY_SIGNALS : []
          [text, early.concat(signals.bytes)]
        ensure
          file&.close
        end

        # For a rehearsal of the fresh program, in a child of this process. `text` has no NUL.
        # Yields the child's environment, and descriptors for Process.spawn.
        def lend(text, ios)
          file = file(text)
          yield({ VARIABLE => "#{file.fileno} #{Process.pid}" }, [*ios, file].to_h { |io| [io.fileno, io.fileno] })
        ensure
          file&.close
        end

        # Starts the fresh program; returns only by an exception, and everything is as before then.
        # `text` has no NUL; `signals` are ignored until the fresh program traps them.
        def exec(text, ios, command, signals: FATAL_SIGNALS, **options)
          file = file(text)
          holding_signals(file) { keep_open([*ios, file]) { ignoring(signals) { replace_process(file, command, options) } } }
        ensure
          file&.close
        end

        private

        def file(text)
          Tempfile.create("gyre").tap do |file|
            File.unlink(file.path)
            file.binmode
            file.write(text, "\0")
            file.flush
          end
        end

        def keep_open(ios)
          ios.each { |io| io.close_on_exec = false }
          yield
        ensure
          ios.each { |io| io.close_on_exec = true }
        end

        # A signal that came before is in the loop by now, which gets its turn: then this task is
        # stopped there.
        def holding_signals(file)
          HeldSignals.hold(file.fileno)
          2.times { sleep 0 }
          yield
        ensure
          signal = HeldSignals.release
          Process.kill(signal, Process.pid) if signal
        end

        def ignoring(names)
          former = names.to_h { |name| [name, trap(name, "IGNORE")] }
          yield
        ensure
          former&.each { |name, handler| trap(name, handler || "DEFAULT") }
        end

        def replace_process(file, command, options)
          environment = command.first.is_a?(Hash) ? command.first : {}
          words = command.first.is_a?(Hash) ? command.drop(1) : command
          Process.exec(environment.merge(VARIABLE => "#{file.fileno} #{Process.pid}"), *words, **options, close_others: false)
        end
      end
    end
  end
end
