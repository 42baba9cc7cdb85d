# frozen_string_literal: true

# Blocks that run later, and again and again: Task#after and Task#every, for which Gyre.after and Gyre.every ask the
# calling task. Part of Gyre::Task.

require "gyre/clock"

module Gyre
  # (see Task::Timing#after)
  def self.after(seconds, name = nil, **options, &block)
    Task.current.after(seconds, name, **options, &block)
  end

  # (see Task::Timing#every)
  def self.every(seconds, name = nil, **options, &block)
    Task.current.every(seconds, name, **options, &block)
  end

  class Task
    # @api private
    module Timing
      # Too short to be slept again for.
      SHORT_S = 1e-6
      private_constant :SHORT_S

      # Runs a block later, as a child.
      #
      # @param seconds [Numeric] from now
      # @param name [String, nil]
      # @param transient [Boolean] whether it is dropped when only transient children are left
      # @yieldparam task [Task] the child
      # @return [Task] the child: its `stop` calls it off, its `wait` gives the block's value
      def after(seconds, name = nil, transient: false, &block)
        raise ArgumentError, "after needs a block" unless block
        raise ArgumentError, "seconds must be a number, not #{seconds.inspect}" unless seconds.is_a?(Numeric)

        due = Clock.now + seconds
        async(name, transient: transient) do |task|
          task.sleep_until(due)
          block.call(task)
        end
      end

      # Runs a block again and again, as a child. The beats stand at multiples of the time from now on, however long the
      # block takes; those that it misses are left out. An exception ends it: as it is transient, it is reported at once
      # unless a caller waits for the child.
      #
      # @param seconds [Numeric] from beat to beat; the first one comes after as long
      # @param name [String, nil]
      # @param transient [Boolean] whether it ends when only transient children are left; `wait` for it where it is all
      #   that there is to do
      # @yieldparam task [Task] the child
      # @return [Task] the child: its `stop` ends it
      def every(seconds, name = nil, transient: true, &block)
        raise ArgumentError, "every needs a block" unless block
        unless seconds.is_a?(Numeric) && seconds.positive?
          raise ArgumentError, "seconds must be a positive number, not #{seconds.inspect}"
        end

        start = Clock.now
        async(name, transient: transient) do |task|
          beat = 0
          while true
            beat = [beat + 1, ((Clock.now - start) / seconds).ceil].max
            task.sleep_until(start + (beat * seconds))
            block.call(task)
          end
        end
      end

      # @param at [Numeric] a time of Clock.now
      # @api private
      def sleep_until(at)
        left = at - Clock.now
        Kernel.sleep(left.positive? ? left : 0)
        Kernel.sleep(left) while (left = at - Clock.now) > SHORT_S # an unblock ended it
      end
    end
  end
end
