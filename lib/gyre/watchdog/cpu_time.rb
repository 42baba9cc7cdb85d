# frozen_string_literal: true

# The processor time of another thread, where the system tells it (Linux). Asked by Gyre::Watchdog, which wants to know
# whether a thread that does not get on computes, or is kept from it. Gives the interpreter's lock to nobody meanwhile: who
# holds the loop would have it for the next 100 ms.

require "rbconfig"

module Gyre
  class Watchdog
    # One thread's clock.
    # @api private
    class CPUTime
      # The clock of a thread has a number that is made of the thread's own (clock_getcpuclockid(3), and
      # include/linux/posix-timers.h): of the scheduler, for one thread.
      LINUX = RbConfig::CONFIG["host_os"].include?("linux")
      SCHEDULER_PER_THREAD = 6
      private_constant :LINUX, :SCHEDULER_PER_THREAD

      # @param thread [Thread] one that runs
      def initialize(thread)
        number = thread.native_thread_id if LINUX && thread.respond_to?(:native_thread_id)
        @clock = (~number << 3) | SCHEDULER_PER_THREAD if number
      end

      # @return [Float, nil] seconds since the thread began; nil where nobody tells it
      def seconds
        Process.clock_gettime(@clock) if @clock
      rescue SystemCallError
        @clock = nil # the thread has ended
      end
    end
  end
end
