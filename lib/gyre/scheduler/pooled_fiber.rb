# frozen_string_literal: true

# What both engines' pools make: a fiber that runs one job after the other. The program may keep it
# beyond its job (Fiber.current of a task that has ended). To the program it has ended then, and is
# not entered: it would go on to other fibers, and its caller, which is in no queue, would never run
# again. The engines themselves enter fibers by Fiber's own transfer, and ask for nothing.

module Gyre
  class Scheduler
    # Ends with its job, as seen by the program.
    class PooledFiber < Fiber
      # Whether it can be used for another job.
      alias usable? alive?

      def alive? = super && !idle?

      def transfer(...)
        idle? ? refuse("attempt to transfer to a terminated fiber") : super(...)
      end

      def raise(...)
        idle? ? refuse("dead fiber called") : super(...)
      end

      # Fiber#kill came with Ruby 3.3. It does nothing to a fiber that has ended.
      if Fiber.method_defined?(:kill)
        def kill = idle? ? self : super
      end

      private

      def idle?
        scheduler = Fiber.scheduler
        scheduler.is_a?(Scheduler) && !scheduler.working?(self)
      end

      def refuse(reason)
        Kernel.raise(FiberError, reason, caller(2))
      end
    end
  end
end
