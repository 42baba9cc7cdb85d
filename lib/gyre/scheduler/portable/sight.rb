# frozen_string_literal: true

# What the portable engine shows of itself: which fiber waits for what, and what is to be found out in another fiber. Part of
# Scheduler::Portable::Fibers; scheduler_sight.c is its twin in C.

module Gyre
  class Scheduler
    module Portable
      # Questions about the fibers, and to them.
      # @api private
      module Sight
        # How long a loop is idle before it looks whether fibers wait for each other.
        SWEEP_S = 0.1

        # Something to be found out in another fiber, which is entered for it and goes back to its own wait.
        Question = Struct.new(:asker, :block, :answer, :error)
        private_constant :Question

        # Whether to look for deadlocks also while timers and descriptors may still wake a fiber.
        attr_writer :suspicious

        # The fibers that wait or are ready. From any thread.
        # @param classes [Array<Class>, nil] only those that wait for an object of one of these
        # @return [Array<Array>] the values of a Gyre::Scheduler::Wait each
        def list_waits(classes)
          waiters = @parked.keys
          waiters.select! { |waiter| classes.any? { |wanted| waiter.blocker.is_a?(wanted) } } if classes
          waiters.map(&:describe)
        end

        # The fiber that waits here in the name of this one: itself, or one that it resumes.
        # @param fiber [Fiber]
        # @return [Fiber, nil] nil when there is none
        def waiting_in(fiber)
          waiter = Strand.known(fiber)&.waiter
          waiter.fiber if waiter&.waiting?
        end

        # @param fiber [Fiber] a pooled one
        # @return [Boolean] whether it has a job
        def working?(fiber)
          @pool.working?(fiber)
        end

        # A number that changes whenever the loop gets on. From any thread.
        # @return [Integer, nil] nil while the loop sleeps
        def pulse
          @switches + @loop.turns unless @loop.waiting?
        end

        # Runs the block in a fiber that waits, which goes on waiting: for what a fiber alone can tell (Mutex#owned?). The
        # block must not wait. On the scheduler's own thread only.
        # @param fiber [Fiber]
        # @return [Object, nil] the block's value; nil when the fiber cannot be entered
        def ask(fiber, &block)
          return yield if fiber.equal?(Fiber.current)
          return unless fiber.equal?(@drives.last&.fiber) || @parked.each_key.any? { |waiter| waiter.fiber.equal?(fiber) }

          @question = question = Question.new(Fiber.current, block)
          @transfer.bind_call(fiber)
          raise question.error if question.error

          question.answer
        rescue FiberError
          nil # it resumes another one
        ensure
          @question = nil
        end

        # What the loop has done and holds.
        # @return [Hash{Symbol => Integer, Float}] turns, waits (turns that slept), wakeups (from outside), events, tasks
        #   (fibers at work), idle_fibers, parked, ready, timers, descriptors (watched ones); lag_p50_s, lag_p90_s,
        #   lag_p99_s, lag_max_s: how long what is ready had to wait for the loop at most, in seconds
        def stats
          { **@loop.stats, tasks: @pool.busy_count, idle_fibers: @pool.idle_count, parked: @parked.size, ready: @ready.size,
                           timers: @loop.timers.size - (@sweep ? 1 : 0) }
        end

        private

        def forget_sight
          @question = @sweep = @swept_switches = nil
          @suspicious = false
          @switches = 0
        end

        # Gives control to a fiber; returns when the present one has it again, and has answered what it was asked.
        def enter_other(fiber)
          @transfer.bind_call(fiber)
          answer while @question
        end

        # In the fiber that is asked. What the block raises (an Interrupt, perhaps) is raised in the fiber that asks.
        def answer
          question = @question
          @question = nil
          begin
            question.answer = question.block.call
          rescue Exception => error # rubocop:disable Lint/RescueException -- raised again by `ask`
            question.error = error
          end
          @transfer.bind_call(question.asker)
        end

        # Whether nothing within this loop will wake a fiber.
        def may_be_stuck?
          !@parked.empty? && (@suspicious || @loop.idle?)
        end

        # The loop is about to sleep. If fibers have run since the last time, it looks shortly after.
        def sweep_delay_s
          SWEEP_S
        end

        def sweep_later
          return if @sweep || @swept_switches == @switches || !may_be_stuck?

          @sweep = @loop.timers.after(sweep_delay_s, -> { sweep })
        end

        def sweep
          @sweep.cancel
          @sweep = nil
          @scheduler.refuse_deadlock(@loop.idle?) if may_be_stuck? && @ready.empty? && @inbox.empty?
          @swept_switches = @switches
        end
      end
    end
  end
end
