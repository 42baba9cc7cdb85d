# frozen_string_literal: true

# A forked child must not share its parent's loop. This hooks into Process._fork (Ruby 3.1), which fork, IO.popen("-") and
# Process.daemon go through; it calls process_fork of the thread's scheduler, whatever engine that is.

module Gyre
  class Scheduler
    # Prepended to Process's singleton class.
    module Fork
      # @return [Integer] as Process._fork
      def _fork
        pid = super
        if pid.zero?
          Offload.process_fork
          scheduler = Fiber.scheduler
          scheduler.process_fork if scheduler.is_a?(Scheduler)
        end
        pid
      end
    end

    Process.singleton_class.prepend(Fork)
  end
end
