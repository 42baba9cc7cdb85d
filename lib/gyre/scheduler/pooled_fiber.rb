# frozen_string_literal: true

# A fiber of both engines' pools, which runs one job after another. The program may keep it after
# its job (Fiber.current of a finished task). A kept fiber counts as ended and refuses to be
# entered: it would switch to other fibers, and its caller would never run again. The engines enter
# fibers by Fiber's own transfer.

module Gyre
  class Scheduler
    class PooledFiber < Fiber
      # True if it can be used for another job.
      alias usable? alive?

      def alive? = super && !idle?

      def transfer(...) = idle? ? refuse("attempt to transfer to a terminated fiber") : super(...)

      def raise(...) = idle? ? refuse("dead fiber called") : super(...)

      # Fiber#kill came with Ruby 3.3. Ignores an ended fiber.
      if Fiber.method_defined?(:kill)
        def kill = idle? ? self : super
      end

      private

      def idle?
        scheduler = Fiber.scheduler
        scheduler.is_a?(Scheduler) && !scheduler.working?(self)
      end

      def refuse(reason) = Kernel.raise(FiberError, reason, caller(2))
    end
  end
end
