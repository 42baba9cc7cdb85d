# frozen_string_literal: true

# Another thread's processor time (Linux): tells Gyre::Watchdog whether a stuck thread computes or
# is kept from running. Keeps the GVL, or a computing thread would have it for 100 ms.

require "rbconfig"

module Gyre
  class Watchdog
    class CPUTime
      # Makes a clock's number of a thread's (clock_getcpuclockid(3), include/linux/posix-timers.h).
      LINUX = RbConfig::CONFIG["host_os"].include?("linux")
      SCHEDULER_PER_THREAD = 6
      private_constant :LINUX, :SCHEDULER_PER_THREAD

      def initialize(thread)
        number = thread_number(thread) if LINUX
        @clock = (~number << 3) | SCHEDULER_PER_THREAD if number
      end

      # Returns seconds since the thread began, or nil.
      def seconds
        Process.clock_gettime(@clock) if @clock
      rescue SystemCallError
        @clock = nil # the thread has ended
      end

      private

      # The process's number for the main thread: Ruby 3.1 returns the parent's after a fork.
      def thread_number(thread)
        return Process.pid if thread == Thread.main

        thread.native_thread_id if thread.respond_to?(:native_thread_id)
      end
    end
  end
end
