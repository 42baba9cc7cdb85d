# frozen_string_literal: true

# IO#fcntl with F_SETLKW in a fiber of a Gyre::Scheduler: a lock on a part of a file, without a
# hook. Tries again and again, with pauses; an abandoned wait in a thread might still take the lock.
# Notices no deadlock of two processes.

require "fcntl"

module Gyre
  class Scheduler
    module RecordLock
      # Commands that do not wait. 38 and 37: Linux' F_OFD_SETLKW and F_OFD_SETLK.
      AT_ONCE = { Fcntl::F_SETLKW => Fcntl::F_SETLK }.merge(RUBY_PLATFORM.include?("linux") ? { 38 => 37 } : {}).freeze
      PAUSE_S = 0.001
      PAUSE_S_LIMIT = 0.05
      private_constant :AT_ONCE, :PAUSE_S, :PAUSE_S_LIMIT

      def fcntl(command, *arguments)
        at_once = AT_ONCE[command]
        return super unless at_once && Fiber.current_scheduler.is_a?(Scheduler)

        pause_s = PAUSE_S
        begin
          super(at_once, *arguments)
        rescue Errno::EAGAIN, Errno::EACCES
          sleep pause_s
          pause_s = [pause_s * 2, PAUSE_S_LIMIT].min
          retry
        end
      end
    end

    IO.prepend(RecordLock)
  end
end
