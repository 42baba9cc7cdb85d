# frozen_string_literal: true

# Replaces a server's program by a new one in the same process (USR2): descriptors stay open across
# exec, and an unnamed file, whose descriptor is in an environment variable, passes a text. Called
# on both sides by the handovers of the web server and the log server, which define the text.
#
# INT and TERM just before the exec are recorded after the text in that file
# (ext/gyre/cli/held_signals.c); exe/gyre traps later ones while the new program loads. A signal
# while Ruby itself starts ends the process as it ends any Ruby program: by the signal or with
# status 1.

require "fcntl"
require "tempfile"

module Gyre
  module CLI
    module Successor
      # "<descriptor> <process>": for this process only, not for a child that inherits the variable.
      VARIABLE = "GYRE_HANDOVER"
      # Signals that would end a process before it has trapped them.
      FATAL_SIGNALS = %w[HUP USR2].freeze

      class << self
        # True in a process that has replaced another server, and is a daemon with a pidfile
        # already.
        def pending? = ENV.fetch(VARIABLE, "").split.last == Process.pid.to_s

        # True in a child that rehearses taking its parent's place; sockets and files are the
        # parent's.
        def rehearsed? = ENV.fetch(VARIABLE, "").split.last == Process.ppid.to_s

        # Returns the text and the ending signals that arrived meanwhile; more may follow until the
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

        # For a rehearsal of the new program in a child of this process. `text` has no NUL. Yields
        # the child's environment, and descriptors for Process.spawn.
        def lend(text, ios)
          file = file(text)
          yield({ VARIABLE => "#{file.fileno} #{Process.pid}" }, [*ios, file].to_h { |io| [io.fileno, io.fileno] })
        ensure
          file&.close
        end

        # Starts the new program; returns only by an exception, after which nothing has changed.
        # `text` has no NUL; `signals` are ignored until the new program traps them.
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

        # Runs the loop for a turn: a signal that came earlier then stops this task.
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
