# frozen_string_literal: true

# Loop#watch_process, by a pidfd or periodic checks. Loops call io, interval, event and cancel.

module Gyre
  class Loop
    class ProcessWatch
      INTERVAL_S = 0.05

      attr_reader :io
      attr_reader :interval

      def initialize(loop, key, pid, engine, &ended)
        @loop = loop
        @key = key
        @pid = pid
        @ended = ended
        fd = engine&.pidfd(pid)
        fd ? @io = IO.for_fd(fd) : @interval = INTERVAL_S
      end

      # Takes the status; true if ended. After {#cancel} others reap the child.
      def event
        return false if @cancelled

        pid, status = Process.wait2(@pid, Process::WNOHANG)
        finish(status) if pid
        !pid.nil?
      rescue Errno::ECHILD
        finish(nil) # reaped elsewhere
        true
      end

      def cancel
        @cancelled = true
        @io&.close
      end

      private

      def finish(status)
        @ended.call(status)
        @loop.unwatch(@key)
      end
    end
  end
end
