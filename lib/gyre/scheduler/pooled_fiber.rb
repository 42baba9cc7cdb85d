# frozen_string_literal: true

# A fiber for jobs: of the native engine's pool for one after another, of the portable engine for
# one. A fiber kept by the program
# (Fiber.current) refuses to be entered after its job: its caller would never run again. Engines
# enter by Fiber's own transfer.

module Gyre
  class Scheduler
    class PooledFiber < Fiber
      def alive? = super && !idle?

      def transfer(...) = idle? ? refuse("attempt to transfer to a terminated fiber") : super(...)

      def raise(...) = idle? ? refuse("dead fiber called") : super(...)

      # Since Ruby 3.3. Ignores an ended fiber.
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
