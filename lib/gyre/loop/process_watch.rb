# frozen_string_literal: true

# What Loop#watch_process holds: a pidfd that becomes readable when the child has ended, or else a
# look at it now and then. Made by Gyre::Loop; an engine's loop calls io, interval, event and
# cancel.

module Gyre
  class Loop
    # A child process until it has ended.
    class ProcessWatch
      # How often it is looked at where there is no pidfd.
      INTERVAL_S = 0.05

      # @return [IO, nil] the pidfd
      attr_reader :io
      # @return [Float, nil] seconds between two looks
      attr_reader :interval

      # @param loop [Loop]
      # @param key [Object] the one that it is watched under
      # @param pid [Integer]
      # @param engine [#pidfd, nil]
      # @yieldparam status [Process::Status]
      def initialize(loop, key, pid, engine, &ended)
        @loop = loop
        @key = key
        @pid = pid
        @ended = ended
        fd = engine&.pidfd(pid)
        fd ? @io = IO.for_fd(fd) : @interval = INTERVAL_S
      end

      # Takes the status.
      # @return [Boolean] whether it has ended; after {#cancel} the child is reaped elsewhere
      def event
        return false if @cancelled

        pid, status = Process.wait2(@pid, Process::WNOHANG)
        finish(status) if pid
        !pid.nil?
      rescue Errno::ECHILD
        finish(nil) # it was reaped elsewhere
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
