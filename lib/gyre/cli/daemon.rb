# frozen_string_literal: true

# Leaves the terminal: the server goes on as a process of its own, and the process that was called
# waits until it listens, so that its exit status shows whether it does. Called by commands that
# serve. It changes neither the folder nor the umask.

require "gyre/cli"

module Gyre
  module CLI
    # One departure.
    class Daemon
      # @param out [IO] where the process id is printed
      # @param quiet [Boolean] it is not, for a pidfile has it
      def initialize(out, quiet: false)
        @out = out
        @quiet = quiet
      end

      # @yieldparam daemon [Daemon] in the new process, which calls #ready when it listens
      # @return [Integer] in the caller 0 when it does and 1 otherwise; in the new process what the
      #   block returns
      def start
        reader, @writer = IO.pipe
        child = fork do
          reader.close
          Process.setsid
          exit!(0) if fork # a process that leads no session never gets a terminal again
          exit(yield(self))
        end
        @writer.close
        Process.wait(child)
        pid = reader.read
        reader.close
        return FAILED if pid.empty?

        @out.puts("PID #{pid}") unless @quiet
        DONE
      end

      # Releases the terminal and the process that waits.
      #
      # @param streams [Array<IO>] those of standard output and error that the log goes to
      # @return [void]
      def ready(streams)
        $stdin.reopen(File::NULL)
        # A reader of what the command prints, as $(gyre log -x), waits for its end; and nothing
        # more is printed there.
        ([$stdout, $stderr] - streams).each { |stream| stream.reopen(File::NULL, "w") if stream.tty? || stream.equal?($stdout) }
        @writer.write(Process.pid.to_s)
        @writer.close
      end
    end
  end
end
