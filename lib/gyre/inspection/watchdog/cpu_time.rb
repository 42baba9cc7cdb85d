# frozen_string_literal: true

# The processor time of another thread, if the system has it (Linux). Gyre::Watchdog decides by it
# whether a stuck thread computes, or is kept from running. Does not give up the interpreter's lock:
# the computing thread would keep it for the next 100 ms.

require "rbconfig"

module Gyre
  class Watchdog
    class CPUTime
      # A clock's number is made of the thread's own (clock_getcpuclockid(3) and
      # include/linux/posix-timers.h): of the scheduler, for one thread.
      LINUX = RbConfig::CONFIG["host_os"].include?("linux")
      SCHEDULER_PER_THREAD = 6
      private_constant :LINUX, :SCHEDULER_PER_THREAD

      def initialize(thread)
        number = thread_number(thread) if LINUX
        @clock = (~number << 3) | SCHEDULER_PER_THREAD if number
      end

      # Since the thread began; nil if unknown.
      def seconds
        Process.clock_gettime(@clock) if @clock
      rescue SystemCallError
        @clock = nil # the thread has ended
      end

      private

      # The main thread has the process's number; Ruby 3.1 returns the parent's after a fork.
      def thread_number(thread)
        return Process.pid if thread == Thread.main

        thread.native_thread_id if thread.respond_to?(:native_thread_id)
      end
    end
  end
end
