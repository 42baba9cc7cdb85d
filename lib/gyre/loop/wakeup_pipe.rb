# frozen_string_literal: true

# A pipe that ends another thread's IO.select.

module Gyre
  class Loop
    module WakeupPipe
      # Argument of Thread.handle_interrupt. A literal would call Object#hash at each use, in which
      # Ruby 3.1 may raise another thread's exception.
      NEVER = { Object => :never }.freeze

      # Returns both ends. Defers exceptions (Thread#raise, #kill, Timeout.timeout): on Ruby 3.1 an
      # exception here leaves an IO whose descriptor is already closed. The collector later closes
      # whatever file then has that number.
      def self.open = Thread.handle_interrupt(NEVER) { IO.pipe }
    end
  end
end
