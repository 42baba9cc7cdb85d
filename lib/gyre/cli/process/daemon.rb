# frozen_string_literal: true

# Detaches from the terminal; the caller waits until the server listens, so that its exit status
# shows success. Keeps folder and umask.

require "gyre/cli"

module Gyre
  module CLI
    class Daemon
      def initialize(out, quiet: false)
        @out = out
        @quiet = quiet
      end

      # Yields in the daemon, which calls #ready once it listens. The caller then gets 0, otherwise
      # 1.
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

      # Releases terminal and waiting process; `streams`: standard streams of the log.
      def ready(streams)
        $stdin.reopen(File::NULL)
        # Readers of the output, such as $(gyre log -x), wait for its end.
        ([$stdout, $stderr] - streams).each { |stream| stream.reopen(File::NULL, "w") if stream.tty? || stream.equal?($stdout) }
        @writer.write(Process.pid.to_s)
        @writer.close
      end
    end
  end
end
