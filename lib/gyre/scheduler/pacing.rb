# frozen_string_literal: true

# Calls Scheduler#pace before socket calls for which Ruby calls a hook only if they must wait. Under
# a flood, an accepting or receiving fiber would never let others run. For reads and writes, Ruby
# calls hooks in any case, and the hooks pace.

require "socket"

module Gyre
  class Scheduler
    # Prepended to the socket classes. Uses `def`, as Ractors call no methods defined by blocks.
    module Pacing
      def self.pace
        scheduler = Fiber.current_scheduler
        scheduler.pace if scheduler.is_a?(Scheduler)
      end

      { accept: [TCPServer, Socket, *(UNIXServer if defined?(UNIXServer))], recv: [BasicSocket],
        recvfrom: [IPSocket, Socket, *(UNIXSocket if defined?(UNIXSocket))] }.each do |name, kinds|
        pacing = Module.new { class_eval("def #{name}(*)\nPacing.pace\nsuper\nend", __FILE__, __LINE__) }
        kinds.each { |kind| kind.prepend(pacing) }
      end
    end
  end
end
