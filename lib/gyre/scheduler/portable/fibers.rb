# frozen_string_literal: true

# Moves the portable engine's fibers: park and wake, the ready queue, the pool, and the driver's
# turns. Called only by the hooks in Scheduler::Portable; the twin of fibers.c.
#
# Fibers move by transfer only; resume and yield belong to the program. An exception from outside
# (Interrupt, Thread#raise) may come wherever Ruby checks for interrupts: at a method's return, at a
# jump. Steps that belong together (taking a fiber off the queue and entering it) therefore use
# neither.
require_relative "inbox"
require_relative "pool"
require_relative "question"
require_relative "sweep"
require_relative "waiter"

module Gyre
  class Scheduler
    module Portable
      class Fibers
        # Number of fibers that run between two questions to the kernel.
        BUDGET = 256
        # Seconds after which a fiber whose calls never wait lets others run, and the number of such
        # calls between two reads of the clock.
        SLICE_S = 0.004
        CLOCK_INTERVAL = 4

        # A fiber that drives the loop until its condition is true, and the strand at the bottom of
        # its chain of resumed fibers. parked: drives only for its own wait, as there was no driver.
        # overdue: its budget was spent when it began, so it asks the kernel before its own fiber
        # continues. The newest drives.
        Drive = Struct.new(:fiber, :base, :parked, :condition, :overdue) do
          def done? = condition.call(self)

          # If another fiber calls the condition, its exceptions are left to the driver.
          def fulfilled?
            done?
          rescue StandardError
            true
          end
        end

        attr_reader :thread
        attr_reader :parked
        attr_reader :inbox

        def initialize(scheduler, loop)
          @scheduler = scheduler
          @loop = loop
          @sweep = Sweep.new(loop) do
            scheduler.refuse_deadlock(idle?) if may_be_stuck? && @ready.empty? && @inbox.empty?
            @switches
          end
          @transfer = Fiber.instance_method(:transfer) # not PooledFiber's, which is for the program
          @unwaited = 0
          forget
          @thread = nil # of the first wait
        end

        # Begins a wait of the current fiber. `blocks`: {#unblock} ends it; print_hierarchy shows
        # `blocker`. Timers and watches may keep it until {#park}.
        def waiter(blocks: false, blocker: nil)
          fiber = Fiber.current
          strand = Strand.of(fiber)
          check_thread
          Waiter.new(self, fiber, strand, @base || strand, blocks, blocker)
        end

        # Leaves the current fiber until its waiter is woken. Returns the value, or raises the
        # error, of the wake-up.
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
            @inbox.hand_on(waiter.blocker) if waiter.binding && !returned # Ruby ends a killed fiber as it is entered
            waiter.state = :done
            waiter.base.waiter = waiter.strand.waiter = nil
            @base = waiter.base
          end
          raise_here(waiter.error, waiter.target) if waiter.error

          waiter.value
        end

        # Makes a parked fiber ready; ignores a ready or running one.
        def wake(waiter, value)
          return unless waiter.state == :parked

          waiter.value = value
          waiter.state = :ready
          @ready.push(waiter)
          @loop.wake if @loop.waiting?
        end

        # Runs all other ready fibers first.
        def requeue
          waiter = self.waiter
          wake(waiter, true)
          park(waiter)
        end

        # Also asks the kernel before this fiber continues.
        def end_turn
          @budget = 0
          requeue
        end

        # Does so once the slice of time is over.
        def pace
          end_turn if slice_over?
        end

        # True once a fiber whose calls never wait has run for long enough.
        def slice_over?
          @unwaited += 1
          (@unwaited % CLOCK_INTERVAL).zero? && @loop.since_poll_s > SLICE_S
        end

        # Called when ConditionVariable#wait or IO#close begins in this fiber: from now on records
        # whether a signal may have reached it. `source` is the signal's Mutex or IO.
        def expect_signal(source)
          strand = Strand.of(Fiber.current)
          strand.source = source
          strand.signalled = false
        end

        # Ends the record. True if a signal may have come.
        def signalled?
          strand = Strand.of(Fiber.current)
          strand.signalled.tap { strand.source = strand.signalled = nil }
        end

        # Runs callable.call(*arguments) in a pooled fiber, at once up to its first wait; then the
        # caller goes on. With `options` (for Fiber.new) in a fiber of its own, which ends with the
        # job.
        def spawn(callable, arguments, options = nil)
          check_thread
          worker = options ? @pool.once(options) : @pool.acquire
          worker.assign(callable, arguments)
          enter(worker)
          raise_failure if @failure && @drives.empty?
          worker.fiber
        end

        # Drives the loop until the block is true; asks it at least once a turn. If there is another
        # driver, takes its place and also checks its condition. `parked`: a parked fiber drives, as
        # no other does.
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

        # True if no fiber waits or is ready, and none drove before `drive`.
        def none_but?(drive)
          @parked.empty? && @inbox.empty? && @drives.take_while { |other| !other.equal?(drive) }.all?(&:parked)
        end

        # Fibers can only be entered in the thread that made them. Takes over a scheduler whose
        # thread has ended, if necessary.
        def check_thread
          return if here?
          raise ThreadError, "this scheduler's fibers belong to another thread, and the present one cannot wait on it" if @thread&.alive?

          @pool = Pool.new(self, @scheduler, @loop) if @thread
          @thread = Loop::Portable.thread
        end

        def close
          @pool.close
          @loop.close
        end

        # In a forked child only the current fiber continues.
        def forget
          @ready&.each { |waiter| waiter.state = :entered if waiter.first } # a driver's start of a fiber is not a wait
          @ready = []
          @parked&.clear # a stack may still refer to it, and Ruby 3.1 then keeps everything the fibers hold
          @parked = {}.compare_by_identity
          @pool ? @pool.forget((@base || Strand.known(Fiber.current))&.fiber) : @pool = Pool.new(self, @scheduler, @loop)
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

        # Called by Worker when its fiber was entered for a job.
        def started(strand)
          strand.reset # late arrivals for the former job
          @entering = nil
          @base = strand
        end

        # An exception that ends the thread or process leaves through the driving fiber.
        def fail(error)
          @failure ||= error
        end

        # Enters the next ready fiber, or the driver. Returns false if there is neither, or if this
        # fiber drives.
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

        # Raises a Stop at every wait. Returns false without any waits.
        def stop_all
          @parked.keys.each { |waiter| @inbox.raise_at(waiter, Stop.new("the scheduler closes")) }
          !@parked.empty?
        end

        def here? = Loop::Portable.thread.equal?(@thread)

        # For inspection; the twin of scheduler_inspection.c.

        # Waiting and ready fibers. From any thread.
        def list_waits(classes)
          waiters = @parked.keys
          waiters.select! { |waiter| classes.any? { |wanted| waiter.blocker.is_a?(wanted) } } if classes
          waiters.map(&:describe)
        end

        # The fiber that really waits when this one does: itself, or a fiber that it has resumed.
        def waiting_in(fiber)
          waiter = Strand.known(fiber)&.waiter
          waiter.fiber if waiter&.waiting?
        end

        def working?(fiber) = @pool.working?(fiber)

        # A number that changes with each turn of the loop and each switch of fibers. From any
        # thread.
        def pulse
          @switches + @loop.turns unless @loop.waiting?
        end

        # Also looks for deadlocks while timers and descriptors may still wake a fiber.
        attr_writer :suspicious

        # Runs the block in a waiting fiber, which then continues to wait: only the fiber itself
        # knows some facts (Mutex#owned?). The block must not wait. Works only on the scheduler's
        # own thread.
        def ask(fiber, &block)
          return yield if fiber.equal?(Fiber.current)
          return unless fiber.equal?(@drives.last&.fiber) || @parked.each_key.any? { |waiter| waiter.fiber.equal?(fiber) }

          @question = question = Question.new(Fiber.current, block)
          @transfer.bind_call(fiber)
          question.value
        rescue FiberError
          nil # resumes another one
        ensure
          @question = nil
        end

        def stats
          { **@loop.stats, tasks: @pool.busy_count, idle_fibers: @pool.idle_count, parked: @parked.size, ready: @ready.size,
                           timers: @loop.timers.size - own_timers }
        end

        private

        # The caller waits at the head of the queue. No exception is raised in this wait, as the new
        # job has already begun.
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

        # Passes control on until this waiter's turn. Control may come back earlier: Ruby enters the
        # root fiber when another one ends.
        def leave(waiter)
          until waiter.state == :entered
            if @entering
              enter_other(@entering.fiber)
            elsif overdue? || !depart(waiter.fiber)
              @base = waiter.base # another fiber may have come back here
              drive(parked: true) { waiter.state == :entered }
            end
          end
        end

        # True if nothing in this loop will wake a fiber.
        def may_be_stuck? = !@parked.empty? && (@suspicious || idle?)

        def idle? = @loop.idle?(own_timers)

        def own_timers = (@sweep.armed? ? 1 : 0) + (@pool.armed? ? 1 : 0)

        # Enters a fiber; returns when the present one runs again and has answered questions put to
        # it.
        def enter_other(fiber)
          @transfer.bind_call(fiber)
          answer while @question
        end

        # Runs in the asked fiber.
        def answer
          question = @question
          @question = nil
          question.answer
          @transfer.bind_call(question.asker)
        end

        # True if it is time to ask the kernel and no driver will do so.
        def overdue? = @drives.empty? && !@budget.positive?

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
        end

        def look_if_overdue(drive)
          return if @failure || !drive.overdue

          drive.overdue = false
          @loop.poll { false }
          @inbox.receive
        end

        # Enters the former driver as soon as its condition is true.
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

        # Making the exception may call the program's code, where an exception for the thread may
        # come: that one is raised now, and this one at the next wait.
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
