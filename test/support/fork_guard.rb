# frozen_string_literal: true

# Replaces a forked child that Ruby itself left hanging. From Ruby 3.4 on a child takes the lock of
# each thread of its parent before its first line; one that a thread held at that moment, on its way
# into a timed sleep or out of it, is never given back (https://github.com/ruby/ruby/pull/13584).
# This process has such threads: every test is waited for with a limit of time. Prepended to
# Process's singleton class before Gyre's own hooks, so that whatever hangs in those still hangs.
module GyreTest
  module ForkGuard
    # For how long a child may take to its first line, on a machine that stands still at times.
    LIMIT_S = 10

    def _fork
      reader, writer = IO.pipe
      until ForkGuard.begun?(pid = super(), reader, writer)
        $stderr.write("tests: child #{pid} hung in Ruby before its first line, another one takes its place\n")
        reader, writer = IO.pipe
      end
      pid
    end

    class << self
      def begun?(pid, reader, writer)
        Fiber.new(blocking: true) do
          writer.close
          pid.zero? || reader.wait_readable(LIMIT_S) || finish(pid)
        ensure
          reader.close
        end.resume
      end

      private

      def finish(pid)
        Process.kill(:KILL, pid)
        Process.wait(pid)
        false
      end
    end

    Process.singleton_class.prepend(self) if RUBY_VERSION >= "3.4" && Process.respond_to?(:fork)
  end
end
