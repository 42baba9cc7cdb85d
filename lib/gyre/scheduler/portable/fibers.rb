# frozen_string_literal: true

# How the portable engine's fibers move: park and wake, the queue of ready ones, the pool, and the
# turns of the fiber that drives the loop. The hooks in Scheduler::Portable are its only callers;
# fibers.c is its twin in C.
#
# Fibers move by transfer only; resume and yield belong to the program. An exception from outside
# (Interrupt, Thread#raise) can come up wherever Ruby checks for interrupts: at the return of a
# method, at a jump. So what must not come apart (taking a fiber off the queue and entering it)
# stands in a row without either.
require_relative "inbox"
require_relative "pool"
require_relative "question"
require_relative "sweep"
require_relative "waiter"

module Gyre
  class Scheduler
    module Portable
      # Which fiber runs, which is next, which wait.
      class Fibers
        # How many fibers run between two questions to the kernel.
        BUDGET = 256
        # How long calls that succeed at once may go on until others run, and how many pass between
        # two looks at the clock.
        SLICE_S = 0.004
        CLOCK_INTERVAL = 4

        # The fiber that drives the loop until its condition is true, the strand below it, and
        # whether it is a parked fiber that drives because no other one does. Overdue: it began
        # because the budget was spent, and the kernel is asked before its own fiber goes on. Of
        # several the newest one is at work.
        Drive = Struct.new(:fiber, :base, :parked, :condition, :overdue) do
          def done?
            condition.call(self)
          end

          # Called on another fiber: what the condition raises there, the driver itself shall find.
          def fulfilled?
            done?
          rescue StandardError
            true
          end
        end

        # @return [Thread] the one whose fibers these are
        attr_reader :thread
        # @return [Hash{Waiter => true}]
        attr_reader :parked
        # @return [Inbox]
        attr_reader :inbox

        # @param scheduler [Portable] reports errors
        # @param loop [Gyre::Loop::Portable]
        def initialize(scheduler, loop)
          @scheduler = scheduler
          @loop = loop
          @sweep = Sweep.new(loop) do
            scheduler.refuse_deadlock(@loop.idle?) if may_be_stuck? && @ready.empty? && @inbox.empty?
            @switches
          end
          @transfer = Fiber.instance_method(:transfer) # not that of PooledFiber, which is for the program
          @unwaited = 0
          forget
          @thread = nil # that of the first wait
        end

        # Begins a wait of the current fiber.
        # @param blocks [Boolean] whether {#unblock} ends it
        # @param blocker [Object] what it waits for, for print_hierarchy
        # @return [Waiter] for {#park}; until then it can be given to timers and watches
        def waiter(blocks: false, blocker: nil)
          fiber = Fiber.current
          strand = Strand.of(fiber)
          check_thread
          Waiter.new(self, fiber, strand, @base || strand, blocks, blocker)
        end

        # Leaves the current fiber until its waiter is woken.
        # @return what it was woken with
        # @raise the exception that it was woken with, or that was waiting for it
        def park(waiter)
          begin
            waiter.base.waiter = waiter.strand.waiter = waiter
            @parked[waiter] = true
            unless waiter.first
              error = waiter.strand.take_deferred || waiter.base.take_deferred and raise_here(error, waiter.strand)
            end
            leave(waiter)
            returned = true
          ensure
            @parked.delete(waiter)
            @inbox.hand_on(waiter.blocker) if waiter.binding && !returned # a killed fiber is ended by Ruby as it is entered
            waiter.state = :done
            waiter.base.waiter = waiter.strand.waiter = nil
            @base = waiter.base
          end
          raise_here(waiter.error, waiter.target) if waiter.error

          waiter.value
        end

        # Makes a parked fiber ready. Nothing happens to one that is ready already, or back at work.
        def wake(waiter, value)
          return unless waiter.state == :parked

          waiter.value = value
          waiter.state = :ready
          @ready.push(waiter)
          @loop.wake if @loop.waiting?
        end

        # Lets all others that are ready run first.
        def requeue
          waiter = self.waiter
          wake(waiter, true)
          park(waiter)
        end

        # The same, and the kernel is asked before this one goes on.
        def end_turn
          @budget = 0
          requeue
        end

        # The same when the present slice of time is over.
        def pace
          end_turn if slice_over?
        end

        # @return [Boolean] whether calls that succeed at once have gone on for long enough
        def slice_over?
          @unwaited += 1
          (@unwaited % CLOCK_INTERVAL).zero? && @loop.since_poll_s > SLICE_S
        end

        # ConditionVariable#wait or IO#close begins in this fiber: from now on it is known whether a
        # signal may have reached it.
        # @param source [Thread::Mutex, IO] which the signal will be for
        def expect_signal(source)
          strand = Strand.of(Fiber.current)
          strand.source = source
          strand.signalled = false
        end

        # The end of that.
        # @return [Boolean] whether a signal may have come
        def signalled?
          strand = Strand.of(Fiber.current)
          strand.signalled.tap { strand.source = strand.signalled = nil }
        end

        # Runs callable.call(*arguments) in a pooled fiber, at once up to its first wait; then the
        # caller goes on.
        # @param options [Hash, nil] for Fiber.new: then it is a fiber of its own, which ends with
        #   the job
        # @return [Fiber]
        def spawn(callable, arguments, options = nil)
          check_thread
          worker = options ? @pool.once(options) : @pool.acquire
          worker.assign(callable, arguments)
          enter(worker)
          raise_failure if @failure && @drives.empty?
          worker.fiber
        end

        # Drives the loop until the block is true; it is asked at least once a turn. When another
        # one drives already, this one takes over, and checks the other one's condition as well.
        # @param parked [Boolean] whether it is a parked fiber that drives because no other one does
        # @yieldparam drive [Drive]
        def drive(parked: false, &done)
          check_thread
          drive = Drive.new(Fiber.current, @base || Strand.of(Fiber.current), parked, done, !@budget.positive?)
          begin
            @drives.push(drive)
            turn(drive) until @failure || drive.done?
          ensure
            @drives.delete(drive)
            @base = drive.base
          end
          raise_failure if @failure
        end

        def driven? = !@drives.empty?

        # @param drive [Drive] the caller's
        # @return [Boolean] whether no fiber waits or is ready, and no other one drove before
        def none_but?(drive)
          @parked.empty? && @inbox.empty? && @drives.take_while { |other| !other.equal?(drive) }.all?(&:parked)
        end

        # Fibers can be entered in the thread that made them only, so another one must not take any
        # off the queue. The scheduler of a thread that has ended may be taken over.
        def check_thread
          return if here?
          raise ThreadError, "this scheduler's fibers belong to another thread, and the present one cannot wait on it" if @thread&.alive?

          @pool = Pool.new(self, @scheduler) if @thread
          @thread = Loop::Portable.thread
        end

        # The scheduler closes.
        def close
          @pool.close
          @loop.close
        end

        # In a forked child: only the current fiber goes on.
        def forget
          @ready&.each { |waiter| waiter.state = :entered if waiter.first } # a driver's start of a fiber is no wait
          @ready = []
          @parked&.clear # a stack may still refer to it, and Ruby 3.1 then keeps all that the fibers hold
          @parked = {}.compare_by_identity
          @pool ? @pool.forget((@base || Strand.known(Fiber.current))&.fiber) : @pool = Pool.new(self, @scheduler)
          @drives = []
          @inbox = Inbox.new(self, @loop)
          @entering = @failure = nil
          @question = nil
          @switches = 0
          @sweep.forget
          @budget = BUDGET
          @base = nil
          @thread = Loop::Portable.thread
        end

        # For Worker: its fiber has been entered for a job.
        def started(strand)
          strand.reset # what came for the job before, after its end
          @entering = nil
          @base = strand
        end

        # An exception that ends the thread or the process leaves through the fiber that drives the
        # loop.
        def fail(error)
          @failure ||= error
        end

        # Gives control to the next ready fiber, or to the driver.
        # @param me [Fiber] the current one
        # @return [Boolean] false when there is neither, or when this fiber drives
        def depart(me)
          driver = @drives.last&.fiber
          if (driver.nil? || (@budget.positive? && !@failure)) && next_ready
            enter_next
          elsif driver && !driver.equal?(me)
            enter_other(driver)
          else
            return false
          end
          true
        end

        # Asks all that wait to end: they get a Stop at their waits.
        # @return [Boolean] false when there are none
        def stop_all
          @parked.keys.each { |waiter| @inbox.raise_at(waiter, Stop.new("the scheduler closes")) }
          !@parked.empty?
        end

        # @return [Boolean] whether the caller is in the thread whose fibers these are
        def here?
          Loop::Portable.thread.equal?(@thread)
        end

        # Gyre::Scheduler's parts call these to show what the fibers do; scheduler_inspection.c is
        # their twin in C.

        # The fibers that wait or are ready. From any thread.
        def list_waits(classes)
          waiters = @parked.keys
          waiters.select! { |waiter| classes.any? { |wanted| waiter.blocker.is_a?(wanted) } } if classes
          waiters.map(&:describe)
        end

        # The fiber that waits here in the name of this one: itself, or one that it resumes.
        def waiting_in(fiber)
          waiter = Strand.known(fiber)&.waiter
          waiter.fiber if waiter&.waiting?
        end

        def working?(fiber)
          @pool.working?(fiber)
        end

        # A number that changes whenever the loop gets on. From any thread.
        def pulse
          @switches + @loop.turns unless @loop.waiting?
        end

        # Whether to look for deadlocks also while timers and descriptors may still wake a fiber.
        attr_writer :suspicious

        # Runs the block in a fiber that waits, which goes on waiting: for what a fiber alone can
        # tell (Mutex#owned?). The block must not wait. On the scheduler's own thread only.
        def ask(fiber, &block)
          return yield if fiber.equal?(Fiber.current)
          return unless fiber.equal?(@drives.last&.fiber) || @parked.each_key.any? { |waiter| waiter.fiber.equal?(fiber) }

          @question = question = Question.new(Fiber.current, block)
          @transfer.bind_call(fiber)
          question.value
        rescue FiberError
          nil # it resumes another one
        ensure
          @question = nil
        end

        # What the loop has done and holds.
        def stats
          { **@loop.stats, tasks: @pool.busy_count, idle_fibers: @pool.idle_count, parked: @parked.size, ready: @ready.size,
                           timers: @loop.timers.size - (@sweep.armed? ? 1 : 0) }
        end

        private

        # The caller waits at the head of the queue. It is no wait in which an exception may be
        # raised: the job has begun.
        def enter(worker)
          waiter = self.waiter
          waiter.binding = waiter.first = true
          waiter.state = :ready
          @ready.unshift(waiter)
          @entering = worker
          park(waiter)
        ensure
          @entering = nil
        end

        # Control goes round until it is this waiter's turn. It may come back before that: Ruby
        # enters the root fiber when another one ends.
        def leave(waiter)
          until waiter.state == :entered
            if @entering
              enter_other(@entering.fiber)
            elsif overdue? || !depart(waiter.fiber)
              drive(parked: true) { waiter.state == :entered }
            end
          end
        end

        # Whether nothing within this loop will wake a fiber.
        def may_be_stuck?
          !@parked.empty? && (@suspicious || @loop.idle?)
        end

        # Gives control to a fiber; returns when the present one has it again, and has answered what
        # it was asked.
        def enter_other(fiber)
          @transfer.bind_call(fiber)
          answer while @question
        end

        # In the fiber that is asked.
        def answer
          question = @question
          @question = nil
          question.answer
          @transfer.bind_call(question.asker)
        end

        # Whether so many have run that it is time to ask the kernel, which no driver does.
        def overdue?
          @drives.empty? && !@budget.positive?
        end

        # @return [Waiter, nil] the first in the queue
        def next_ready
          @ready.shift while (waiter = @ready.first) && waiter.state != :ready
          waiter
        end

        def enter_next
          @budget -= 1
          @switches += 1
          waiter = @ready.shift
          waiter.state = :entered
          @transfer.bind_call(waiter.fiber)
          answer while @question
        end

        def turn(drive)
          @drives.push(drive) if @drives.empty? # forgotten by a fork, whose fiber has ended
          @inbox.receive
          @budget = BUDGET
          while @budget.positive? && next_ready
            enter_next
            @base = drive.base
            return look_if_overdue(drive) if @failure || drive.done?
          end
          return if drive.done? || resume_other(drive)

          @sweep.later(@switches) if @ready.empty? && may_be_stuck?
          @loop.poll { @ready.empty? && @inbox.empty? }
          @inbox.receive
          @pool.trim
        end

        def look_if_overdue(drive)
          return if @failure || !drive.overdue

          drive.overdue = false
          @loop.poll { false }
          @inbox.receive
        end

        # The former driver is entered again as soon as its condition is true.
        def resume_other(drive)
          return if @drives.size == 1

          other = @drives.reverse_each.find { |candidate| !candidate.equal?(drive) && candidate.fulfilled? } or return
          enter_other(other.fiber)
          @base = drive.base
        end

        def raise_failure
          failure = @failure
          @failure = nil
          raise failure
        end

        # One for the thread may come in the exception's own method: then that one is raised, and
        # this one at the next wait.
        def raise_here(error, strand)
          error.equal?(Inbox::KILL) ? FiberRaise.end_here(strand.fiber) : raise(error)
        rescue Exception => raised # rubocop:disable Lint/RescueException -- raised again
          strand.defer(error) unless raised.instance_of?(error.class)
          raise
        end

      end
    end
  end
end
