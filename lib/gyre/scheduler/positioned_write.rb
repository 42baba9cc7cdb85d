# frozen_string_literal: true

# IO#pwrite in a scheduler's fiber, written in a blocking fiber: Ruby 3.3 and 3.4 look for the hook
# io_pwrite without the GVL and make an object, during which another thread's garbage collection
# crashes the process.

module Gyre
  class Scheduler
    module PositionedWrite
      def pwrite(*) = Fiber.current.blocking? ? super : Fiber.blocking { super }
    end

    IO.prepend(PositionedWrite) if RUBY_VERSION.start_with?("3.3.", "3.4.")
  end
end
