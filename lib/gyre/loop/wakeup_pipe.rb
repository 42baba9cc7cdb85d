# frozen_string_literal: true

# A pipe that ends another thread's IO.select.

module Gyre
  class Loop
    module WakeupPipe
      # For Thread.handle_interrupt. A literal would call Object#hash, where Ruby 3.1 may raise
      # another thread's exception.
      NEVER = { Object => :never }.freeze

      # Returns both ends. Defers exceptions (Thread#raise, #kill, Timeout.timeout): on Ruby 3.1 an
      # exception here leaves an IO whose descriptor is closed already. Once collected, it closes
      # the file that has the number then.
      def self.open = Thread.handle_interrupt(NEVER) { IO.pipe }
    end
  end
end
