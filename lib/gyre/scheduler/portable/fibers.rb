# frozen_string_literal: true

# Switches the portable engine's fibers: parks and wakes them, keeps the ready queue, runs turns.
# Called by Scheduler::Portable's hooks. Twin of fibers.c, except that each job has its own fiber
# and that control passes through the driver.
#
# Fibers are entered by transfer only. Exceptions for the thread (Interrupt, Thread#raise) come when
# a method returns, also one in C but an attribute's, or code jumps. Between steps that belong
# together (marking a fiber as entered and entering it) there is neither.

require_relative "inbox"
require_relative "job"

module Gyre
  class Scheduler
    module Portable
      class Fibers
        # Maximum fibers entered between two calls of the kernel.
        BUDGET = 256
        # Seconds after which a busy fiber lets others run, and calls between two clock reads.
        SLICE_S = 0.004
        CLOCK_INTERVAL = 4
        # Jobs begun between two garbage collections that free stacks.
        JOBS_KEPT = 4096
        # Before 4.0 Ruby keeps the stack of an ended fiber that was entered by transfer.
        STACKS_STAY = RUBY_VERSION < "4.0"
        # Idle seconds before the search for deadlocks.
        SWEEP_S = 0.1

        # A fiber that drives the loop until its condition is true. `base`: the strand at the bottom
        # of its chain of resumed fibers. `parked`: true if it drives for its own wait, as there was
        # no driver. Of several drivers the newest drives.
        Drive = Struct.new(:fiber, :base, :parked, :condition) do
          def done? = condition.call(self)

          # True also if the condition raises: its driver then raises the exception.
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
          @transfer = Fiber.instance_method(:transfer) # not PooledFiber's, which is for the program
          @jobs = {}.compare_by_identity # fiber => true
          @unwaited = @begun = 0
          forget
          @thread = nil # set at the first wait
        end

        # Makes a waiter for the calling fiber, to be given to timers and watches before {#park}.
        # `blocks`: whether an unblock ends the wait. `blocker`: shown by print_hierarchy.
        def waiter(blocks: false, blocker: nil)
          fiber = Fiber.current
          strand = Strand.of(fiber)
          check_thread
          Waiter.new(self, fiber, strand, @base || strand, blocks, blocker)
        end

        # Suspends the calling fiber until its waiter is woken. Returns the wake-up's value, or
        # raises the waiter's error.
        def park(waiter)
          begin
            waiter.base.waiter = waiter.strand.waiter = waiter
            @parked[waiter] = true
            unless waiter.first
              error = waiter.strand.take_deferred(waiter) || waiter.base.take_deferred(waiter) and raise_here(error, waiter.strand)
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

        # Runs all other ready fibers and asks the kernel before this fiber continues.
        def end_turn
          @budget = 0
          requeue
        end

        def pace = (end_turn if slice_over?)

        # True if fibers have run for longer than SLICE_S since the last call of the kernel.
        def slice_over?
          @unwaited += 1
          (@unwaited % CLOCK_INTERVAL).zero? && @loop.since_poll_s > SLICE_S
        end

        # Called before ConditionVariable#wait or IO#close: begins to record whether a signal of
        # `source`, a Mutex or IO, comes.
        def expect_signal(source)
          strand = Strand.of(Fiber.current)
          strand.source = source
          strand.signalled = false
        end

        # Ends the recording. True if a signal may have come.
        def signalled?
          strand = Strand.of(Fiber.current)
          strand.signalled.tap { strand.source = strand.signalled = nil }
        end

        # Runs callable.call(*arguments) in a new fiber, with `options` of Fiber.new, up to its
        # first wait. The caller waits at the queue's head. No exception is raised in this wait, as
        # the job has begun. Before Ruby 4.0, and in a forked child, only a garbage collection frees
        # the stacks of ended jobs. Therefore collects now and then, as the kernel limits a
        # process's stacks (vm.max_map_count).
        def spawn(callable, arguments, options)
          collect if ((@begun += 1) % JOBS_KEPT).zero? && (STACKS_STAY || forker)
          waiter = self.waiter
          job = Job.new(self, @scheduler, callable, arguments, options)
          waiter.binding = waiter.first = true
          waiter.state = :ready
          @ready.unshift(waiter)
          begin
            @entering = job.fiber
            park(waiter)
          ensure
            @entering = nil
          end
          raise_failure if @failure && @drives.empty?
          job.fiber
        end

        # Called by a job in its fiber.
        def started(fiber)
          @entering = nil
          @base = Strand.of(fiber)
          @jobs[fiber] = true
        end

        def finished(fiber) = @jobs.delete(fiber)

        # Called at a job's end. In a forked child leaves the fiber unfinished for the collector: if
        # the fiber ended, Ruby would continue in the forking fiber, which it takes for the thread's
        # root and which may have ended. At that fiber's own end Ruby ends the process; the other
        # fibers end before, as nothing can be entered from an ended fiber.
        def pass_on
          @transfer.bind_call(@drives.last.fiber) while driven? && forker
          Fiber.set_scheduler(nil) if Fiber.current.equal?(forker)
        end

        # Drives the loop until the block returns true. Calls the block at least once a turn. If
        # there is a driver, takes its place and also checks its condition. `parked`: true if a
        # parked fiber drives.
        def drive(parked: false, &done)
          check_thread
          drive = Drive.new(Fiber.current, @base || Strand.of(Fiber.current), parked, done)
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

        # True if no other fiber waits, is ready or drives.
        def none_but?(drive) = @parked.empty? && @inbox.empty? && @drives.take_while { |other| !other.equal?(drive) }.all?(&:parked)

        # Raises ThreadError outside of the fibers' own thread, as only this thread can enter them.
        # Takes over a scheduler whose thread has ended.
        def check_thread
          return if here?
          raise ThreadError, "this scheduler's fibers belong to another thread, and the present one cannot wait on it" if @thread&.alive?

          @jobs.clear
          @thread = Loop::Portable.thread
        end

        # Called in a forked child, where only the current fiber continues.
        def forget
          @ready&.each { |waiter| waiter.state = :entered if waiter.first } # a driver's start of a fiber is not a wait
          @ready = []
          @parked&.clear # a stack may still refer to it, and Ruby 3.1 then keeps everything the fibers hold
          @parked = {}.compare_by_identity
          @jobs.select! { |fiber, _| fiber.equal?((@base || Strand.known(Fiber.current))&.fiber) }
          @drives = []
          @inbox = Inbox.new(self, @loop)
          @entering = @failure = @question = @sweep = @swept = nil
          @switches = 0
          @budget = BUDGET
          @base = nil
          @thread = Loop::Portable.thread
        end

        # Lets the driver raise an exception that ends the thread or the process.
        def fail(error) = @failure ||= error

        # Raises a Stop at every wait; false if there are no waits.
        def stop_all
          @parked.keys.each { |waiter| @inbox.raise_at(waiter, Stop.new("the scheduler closes")) }
          !@parked.empty?
        end

        # Raises an exception for the calling fiber that no wait has raised.
        def raise_deferred
          strand = Strand.of(Fiber.current)
          error = strand.take_deferred and raise_here(error, strand)
        end

        def here? = Loop::Portable.thread.equal?(@thread)

        # --- inspection: the twin of scheduler_inspection.c ---

        # Any thread may call it.
        def list_waits(classes)
          waiters = @parked.keys
          waiters.select! { |waiter| classes.any? { |wanted| waiter.blocker.is_a?(wanted) } } if classes
          waiters.map(&:describe)
        end

        # Returns the fiber that waits: `fiber` itself or a fiber that it has resumed. nil if
        # neither waits.
        def waiting_in(fiber)
          waiter = Strand.known(fiber)&.waiter
          waiter.fiber if waiter&.waiting?
        end

        def working?(fiber) = @jobs.key?(fiber)

        # True in a fiber that a job's fiber has resumed.
        def inner? = !@base.nil? && working?(@base.fiber) && !@base.fiber.equal?(Fiber.current)

        # Returns the fiber of the running job, or nil.
        def job = (@base.fiber if @base && @jobs.key?(@base.fiber))

        # Returns a number that changes with each turn and switch, nil while the loop waits. Any
        # thread may call it.
        def pulse = (@switches + @loop.turns unless @loop.waiting?)

        # If true, deadlocks are searched for even while timers and descriptors may wake fibers.
        attr_writer :suspicious

        # Runs the block, which must not wait, in a waiting fiber, as only the fiber itself knows
        # some facts (Mutex#owned?). Called in the scheduler's thread only.
        def ask(fiber)
          asker = Fiber.current
          return yield if fiber.equal?(asker)
          return unless fiber.equal?(@drives.last&.fiber) || @parked.each_key.any? { |waiter| waiter.fiber.equal?(fiber) }

          answer = error = nil
          @question = lambda do
            begin
              answer = yield
            rescue Exception => error # rubocop:disable Lint/RescueException -- such as Interrupt: raised in the asking fiber
              nil
            end
            @transfer.bind_call(asker)
          end
          @transfer.bind_call(fiber)
          raise error if error

          answer
        rescue FiberError
          nil # the fiber has resumed another fiber
        ensure
          @question = nil
        end

        def stats
          ready = @ready.count { |waiter| waiter.state == :ready }
          { **@loop.stats, tasks: @jobs.size, parked: @parked.size, ready: ready, timers: @loop.timers.size - own_timers }
        end

        private

        # The forking fiber in a forked child, in the thread that had a scheduler at the fork.
        def forker = Thread.current.thread_variable_get(:gyre_forker)

        def collect
          return if GC.disable # the program has disabled it

          GC.enable
          GC.start
        end

        # Enters other fibers until it is this waiter's turn. When a fiber ends, Ruby enters the
        # root fiber, so {#enter} may return earlier.
        def leave(waiter)
          until waiter.state == :entered
            other = @entering || @drives.last&.fiber
            if other && !other.equal?(waiter.fiber)
              enter(other)
            elsif @budget.positive? && (ready = next_ready)
              enter_next(ready)
            else
              @base = waiter.base # another fiber may have come back here
              drive(parked: true) { waiter.state == :entered }
            end
          end
          next_ready # drops this waiter, which keeps its fiber
        end

        # True if fibers wait and nothing in this loop can wake them. With a watchdog
        # (`suspicious`), true whenever fibers wait.
        def may_be_stuck? = !@parked.empty? && (@suspicious || idle?)

        def idle? = @loop.idle?(own_timers)

        def own_timers = @sweep ? 1 : 0

        # Enters a fiber. Returns when the calling fiber runs again; first answers a pending
        # question of {#ask}.
        def enter(fiber)
          @transfer.bind_call(fiber)
          answer while @question
        end

        # Runs in the asked fiber.
        def answer
          question = @question
          @question = nil
          question.call
        end

        def next_ready
          @ready.shift while (waiter = @ready.first) && waiter.state != :ready
          waiter
        end

        # Leaves the waiter in the queue until its fiber runs: an exception as Array#shift returns
        # would lose it.
        def enter_next(waiter)
          @budget -= 1
          @switches += 1
          waiter.state = :entered
          enter(waiter.fiber)
        end

        def turn(drive)
          @drives.push(drive) if @drives.empty? # a fork has forgotten it
          @inbox.receive
          while @budget.positive? && (ready = next_ready)
            enter_next(ready)
            @base = drive.base
            return if @failure || drive.done?
          end
          return if drive.done? || resume_other(drive)

          @sweep ||= sweep_later if @ready.empty? && may_be_stuck? && @swept != @switches
          @loop.poll { @ready.empty? && @inbox.empty? }
          @budget = BUDGET
          @inbox.receive
        end

        # Enters an earlier driver whose condition is true.
        def resume_other(drive)
          return if @drives.size == 1

          other = @drives.reverse_each.find { |candidate| !candidate.equal?(drive) && candidate.fulfilled? } or return
          enter(other.fiber)
          @base = drive.base
        end

        # Looks for deadlocks once, SWEEP_S after the last work of an idle loop.
        def sweep_later = @loop.timers.after(SWEEP_S, -> { sweep })

        def sweep
          @sweep.cancel
          @sweep = nil
          @scheduler.refuse_deadlock(idle?) if may_be_stuck? && @ready.empty? && @inbox.empty?
          @swept = @switches
        end

        def raise_failure
          failure = @failure
          @failure = nil
          raise failure
        end

        # Raises `error`. If an exception for the thread comes meanwhile (`error` may call the
        # program), raises that exception now and `error` at the next wait.
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
