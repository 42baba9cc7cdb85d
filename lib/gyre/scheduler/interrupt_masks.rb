# frozen_string_literal: true

# Heeds Thread.handle_interrupt for the exceptions that a scheduler raises in a waiting fiber:
# timeouts, deadlines, stops. Ruby keeps one stack of masks for a thread, on which its fibers' masks
# mix; so each fiber has its own here. The engines ask {InterruptMasks.defer?} before they raise. An
# exception masked by :never comes at the first wait that it may interrupt, or at the block's end.

module Gyre
  class Scheduler
    module InterruptMasks
      # Links of [masks, the outer link], the innermost first.
      MASKS = :@gyre_masks
      # True if an exception has been deferred since the last block's end.
      DEFERRED = :@gyre_deferred
      private_constant :MASKS, :DEFERRED

      def handle_interrupt(masks, &block)
        scheduler = Fiber.current_scheduler
        return super unless scheduler.is_a?(Scheduler) && block && !masks.equal?(SpinLock::NEVER) # which never waits

        fiber = Fiber.current
        outer = fiber.instance_variable_get(MASKS)
        begin
          fiber.instance_variable_set(MASKS, [masks, outer])
          InterruptMasks.deliver(fiber, scheduler)
          super
        ensure
          fiber.instance_variable_set(MASKS, outer)
          InterruptMasks.deliver(fiber, scheduler)
        end
      end

      # True if the exception has to wait. An IOError is an IO's close, which waits for the fiber.
      # @param fiber [Fiber] waits
      # @param bottom [Fiber] the fiber at the bottom of its chain
      # @param error [Exception]
      # @api private
      def self.defer?(fiber, bottom, error)
        return false if error.is_a?(IOError) || !never?(fiber, bottom, error.class)

        [fiber, bottom].each { |each| each.instance_variable_set(DEFERRED, true) }
        true
      end

      # @api private
      def self.never?(fiber, bottom, kind)
        [fiber, bottom].each do |each|
          link = each.instance_variable_get(MASKS)
          while link
            masks, link = link
            timing = kind.ancestors.filter_map { |ancestor| masks[ancestor] }.first
            return timing == :never if timing
          end
        end
        false
      end

      # Raises what was deferred, unless it is still masked.
      # @api private
      def self.deliver(fiber, scheduler)
        return unless fiber.instance_variable_get(DEFERRED)

        fiber.instance_variable_set(DEFERRED, nil)
        scheduler.yield
      end
    end

    Thread.singleton_class.prepend(InterruptMasks)
  end
end
