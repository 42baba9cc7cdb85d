# frozen_string_literal: true

# Replaces a server's program in the same process (USR2), after a rehearsal in a child. Descriptors
# stay open across exec. Writes the state as JSON to an unnamed file, and passes the file's
# descriptor in the environment; Gyre::CLI::Handover reads it.
#
# The file also gets an INT or TERM that comes just before the exec (ext/gyre/cli/held_signals.c).
# exe/gyre traps these, HUP and USR2 while the program loads. While Ruby starts, INT and TERM end
# the process; HUP and USR2 are ignored, as the program reads later all that is not handed over.

require "gyre/cli/process/handover"
require "gyre/cli/process/restart"
require "json"
require "tempfile"

module Gyre
  module CLI
    class Successor
      REHEARSAL_S = 60
      PRINTED_BYTES = 65_536

      # Makes an unnamed file, in memory if possible: the text may contain keys, and the machine
      # may have no folder for temporary files that Ruby takes.
      def self.unnamed
        Tempfile.create("gyre", ("/dev/shm" if File.writable?("/dev/shm"))).tap { |file| File.unlink(file.path) }
      end

      # Runs a program to its end; kills it after `limit_s`, or if the calling task is stopped.
      def self.run(*command, limit_s:, **options)
        ended = Process.detach(Process.spawn(*command, **options))
        ended.join(limit_s) || Process.kill(:KILL, ended.pid)
        ended.value
      ensure
        Process.kill(:KILL, ended.pid) && ended.join if ended&.alive?
      end

      # `name` begins the program's messages. `signals` are ignored until the new program traps
      # them. `run`: see {run}. `environment` and `options` are for the program. The block returns
      # what else is handed over; it is called before each rehearsal.
      def initialize(name, command: Restart.command, environment: {}, signals: %w[HUP USR2], run: Successor.method(:run), **options, &more)
        @name = name
        @command = command
        @environment = environment
        @signals = signals
        @run = run
        @options = options
        @more = more
        @added = {}
      end

      # Starts the program in a child, which gets the state and the descriptors and ends before it
      # would serve. Returns the reason if that fails, or nil.
      def rehearse(left, ios)
        @added = @more.call if @more
        output = Successor.unnamed # the child's children may keep a pipe
        status = handing_over(left, ios) do |environment, descriptors|
          @run.call(environment, *@command, "--check", limit_s: REHEARSAL_S, out: output, err: output, close_others: true, **descriptors, **@options)
        end
        return if status.success?

        output.rewind
        printed = (output.read(PRINTED_BYTES) || +"").force_encoding(Encoding::UTF_8).scrub.strip
        return printed.delete_prefix("#{@name}: ") unless status.signaled? || printed.empty?

        require "gyre/cluster/member"
        "the new program #{Cluster::Member.end_of(status)} (it has #{REHEARSAL_S} s)"
      ensure
        output&.close
      end

      # Executes the program. Returns only by an exception, and then nothing has changed.
      def exec(left, ios)
        handing_over(left, ios) do |environment, _descriptors, file|
          holding_signals(file) do
            keep_open([*ios, file]) do
              ignoring(@signals) { Process.exec(environment, *@command, close_others: false, **@options) }
            end
          end
        end
      end

      private

      # Yields environment, descriptors to keep, and the file with the state.
      def handing_over(left, ios)
        file = Successor.unnamed
        file.binmode
        file.write(JSON.generate({ **left, **@added }), "\0")
        file.flush
        environment = Restart.environment.merge(@environment, Handover::VARIABLE => "#{file.fileno} #{Process.pid}")
        yield(environment, [*ios, file].to_h { |io| [io.fileno, io.fileno] }, file)
      ensure
        file&.close
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
    end
  end
end
