# frozen_string_literal: true

# Replaces a server's program in the same process (USR2). Descriptors stay open across exec. A text
# is passed in an unnamed file, whose descriptor is in the environment. Called before and after the
# exec by the handovers of web and log server.
#
# The file also gets an INT or TERM that comes just before the exec (ext/gyre/cli/held_signals.c).
# exe/gyre traps these, HUP and USR2 while the program loads. While Ruby starts, INT and TERM end
# the process; HUP and USR2 are ignored, as the program reads later all that is not handed over.

require "fcntl"
require "gyre/cli/process/restart"
require "tempfile"

module Gyre
  module CLI
    module Successor
      # Environment: "<descriptor> <pid>", for the process with this pid or a rehearsing child.
      VARIABLE = "GYRE_HANDOVER"
      # Signals that would end a program before it has trapped them.
      FATAL_SIGNALS = %w[HUP USR2].freeze

      class << self
        # True in a successor until {#receive}. (A daemon stays a daemon across the exec.)
        def pending? = ENV.fetch(VARIABLE, "").split.last == Process.pid.to_s

        # True in a child that rehearses its parent's replacement. The parent owns sockets and
        # files.
        def rehearsed? = ENV.fetch(VARIABLE, "").split.last == Process.ppid.to_s

        # Returns the text, and an Array of the numbers of the signals that have come. The Array may
        # grow until the server handles signals; then {#signal_again} gives it these.
        def receive
          file = IO.for_fd(Integer(ENV.delete(VARIABLE).split.first), "rb")
          file.rewind
          text, signals = file.read.split("\0", 2)
          early = defined?(::GYRE_EARLY_SIGNALS) ? ::GYRE_EARLY_SIGNALS : []
          [text, early.concat(signals.bytes)]
        ensure
          file&.close
        end

        def signal_again(signals) = signals.uniq.each { |number| Process.kill(number, Process.pid) }

        # Yields environment and descriptors for a rehearsing child. `text` must not contain NUL.
        def lend(text, ios)
          file = file(text)
          yield({ VARIABLE => "#{file.fileno} #{Process.pid}" }, [*ios, file].to_h { |io| [io.fileno, io.fileno] })
        ensure
          file&.close
        end

        # Executes the command. Returns only by an exception, and then nothing has changed. `text`
        # must not contain NUL. `signals` are ignored until the new program traps them.
        def exec(text, ios, command, signals: FATAL_SIGNALS, **options)
          file = file(text)
          holding_signals(file) { keep_open([*ios, file]) { ignoring(signals) { replace_process(file, command, options) } } }
        ensure
          file&.close
        end

        # Makes an unnamed file, in memory if possible: the text may contain keys, and the machine
        # may have no folder for temporary files that Ruby takes.
        def unnamed
          Tempfile.create("gyre", ("/dev/shm" if File.writable?("/dev/shm"))).tap { |file| File.unlink(file.path) }
        end

        private

        def file(text)
          unnamed.tap do |file|
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

        # Records INT and TERM until the block ends. First lets the loop handle an earlier signal,
        # which stops this task.
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
          Process.exec(Restart.environment.merge(environment, VARIABLE => "#{file.fileno} #{Process.pid}"), *words, **options, close_others: false)
        end
      end
    end
  end
end
