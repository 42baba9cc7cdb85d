# frozen_string_literal: true

# IO#pwrite in a fiber of a scheduler. Ruby 3.3 and 3.4 look for the hook io_pwrite when they have
# given up the GVL already, and make an object for its arguments there, whether the hook exists or
# not: when another thread collects garbage at that moment, the process crashes. In a blocking fiber
# Ruby asks no scheduler, and pwrite just writes. Elsewhere nothing changes.

module Gyre
  class Scheduler
    # Prepended to IO.
    module PositionedWrite
      def pwrite(*)
        Fiber.current.blocking? ? super : Fiber.blocking { super }
      end
    end

    IO.prepend(PositionedWrite) if RUBY_VERSION.start_with?("3.3.", "3.4.")
  end
end
