# frozen_string_literal: true

# A fiber for jobs: runs one job after another in the native engine's pool, a single job in the
# portable engine. Once its job is over, the fiber refuses to be entered by a program that has kept
# it (Fiber.current), as the caller would never run again. The engines enter by Fiber's own
# transfer.

module Gyre
  class Scheduler
    class PooledFiber < Fiber
      def alive? = super && !idle?

      def transfer(...) = idle? ? refuse("attempt to transfer to a terminated fiber") : super(...)

      def raise(...) = idle? ? refuse("dead fiber called") : super(...)

      # Exists since Ruby 3.3. Does nothing once the job is over.
      def kill = idle? ? self : super if Fiber.method_defined?(:kill)

      private

      def idle?
        scheduler = Fiber.scheduler
        scheduler.is_a?(Scheduler) && !scheduler.working?(self)
      end

      def refuse(reason) = Kernel.raise(FiberError, reason, caller(2))
    end
  end
end
