# frozen_string_literal: true

# Detaches from the terminal: the server continues in its own process; the calling process waits
# until it listens, so that the exit status shows success. Called by commands that serve. Changes
# neither folder nor umask.

require "gyre/cli"

module Gyre
  module CLI
    class Daemon
      def initialize(out, quiet: false)
        @out = out
        @quiet = quiet
      end

      # Yields in the daemon, which calls #ready when it listens. Returns 0 to the caller then,
      # otherwise 1.
      def start
        reader, @writer = IO.pipe
        child = fork do
          reader.close
          Process.setsid
          exit!(0) if fork # a process that does not lead a session never gets a terminal again
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

      # Releases the terminal and the waiting process. `streams` are the standard streams that the
      # log uses.
      def ready(streams)
        $stdin.reopen(File::NULL)
        # Readers of the command's output, such as $(gyre log -x), wait for its end; nothing more is
        # printed there.
        ([$stdout, $stderr] - streams).each { |stream| stream.reopen(File::NULL, "w") if stream.tty? || stream.equal?($stdout) }
        @writer.write(Process.pid.to_s)
        @writer.close
      end
    end
  end
end
