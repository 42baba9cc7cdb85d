# frozen_string_literal: true

# A pipe by which one thread ends another one's wait: for what waits in IO.select.

module Gyre
  class Loop
    # See the head of this file.
    module WakeupPipe
      # Makes one. An exception from another thread (Thread#raise, #kill, Timeout.timeout) waits
      # until it is whole: on Ruby 3.1 one that comes in between leaves an IO object behind whose
      # descriptor is closed already, and which closes another one when it is collected.
      # @return [Array(IO, IO)] its reading and its writing end
      # @raise [SystemCallError] when there are no descriptors left
      def self.open
        Thread.handle_interrupt(Object => :never) { IO.pipe }
      end
    end
  end
end
