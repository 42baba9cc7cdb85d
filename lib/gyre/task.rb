# frozen_string_literal: true

# A task: a block in a pooled fiber, with a parent that outlives it. Gyre.run makes the root,
# Task#async others. Uses Gyre::Scheduler's public methods. Belongs to one thread; other threads may
# only wait for it, stop it and ask for its state.

require "gyre/deadline"
require "gyre/inspection/hierarchy"
require "gyre/sync/waiter"
require "gyre/task/context"
require "gyre/task/failure"

module Gyre
  # (see Task#after)
  def self.after(seconds, name = nil, **options, &block) = Task.current.after(seconds, name, **options, &block)

  # (see Task#every)
  def self.every(seconds, name = nil, **options, &block) = Task.current.every(seconds, name, **options, &block)

  # A task ends after its block *and* all children. A failed or stopped block stops the children.
  #
  #   body runs ──ends well──► waits for its children ──────────────┐
  #       │                    (stops transient ones at the end)    ├─► finished: :completed, :failed or :stopped
  #       └─raises or stopped─► stops its children, waits for them ─┘
  #
  # Values of @stopping:
  #
  #   false ──stop──► true             Stop is on its way, or has been raised
  #     │ ▲                            (the end of a defer_stop raises what came meanwhile, and is true then)
  #     ▼ │
  #   :deferred ──stop──► a Stop       inside of a defer_stop; no task below is stopped either
  # @outcome: RUNNING, then the block's value, a Failure or STOPPED. @block: nil if finished.
  class Task
    include Inspection::Awaited

    RUNNING = Object.new.freeze
    STOPPED = Object.new.freeze
    NO_CHILDREN = {}.freeze
    # Code around a program's block, whose place it has.
    # @api private
    Around = Struct.new(:block, :body) do
      # @api private
      def call(task) = body.call(task)
      # @api private
      def source_location = block.source_location
    end
    private_constant :RUNNING, :STOPPED, :NO_CHILDREN, :Around

    # @return [Task] the calling task
    # @raise [RuntimeError] outside of tasks
    def self.current = (current? or raise "no task here: wrap the code in Gyre.run { }")

    # @return [Task, nil] the calling task
    def self.current? = Thread.current[:gyre_task]

    # @return [Task, nil] nil: a root
    attr_reader :parent
    # @return [String, nil] see {#async}
    attr_reader :name
    # @return [String, nil] see {#annotate}
    attr_reader :annotation
    # @return [Fiber, nil] runs its block; nil before and after
    # @api private
    attr_reader :fiber
    # @return [Context] values and innermost deadline
    # @api private
    attr_accessor :context

    # Use {#async} or Gyre.run.
    # @api private
    def initialize(parent, name, transient, block, context)
      @parent = parent
      @name = name
      @transient = transient
      @block = block
      @context = context
      @made_at = Clock.now
      @outcome = RUNNING
      @fiber = @waiters = @annotation = nil
      @children = NO_CHILDREN # task => true, unfinished, in the order of their starts
      @stopping = false
    end

    # Starts a child, which runs up to its first wait; then the caller continues.
    # @param name [String, nil] for reports and {#print_hierarchy}
    # @param transient [Boolean] stopped once only transient children are left; has no deadline
    # @yieldparam task [Task] the child
    # @return [Task] {#wait} has its value or exception
    # @raise [Error] this task is over, or belongs to another thread
    def async(name = nil, transient: false, &block)
      raise ArgumentError, "async needs a block" unless block

      start_child(name, transient, block)
    end

    # Runs a block later, as a child.
    # @param seconds [Numeric] from now
    # @param name [String, nil]
    # @param transient [Boolean] whether it ends once only transient children are left
    # @yieldparam task [Task] the child
    # @return [Task] `stop` cancels it, `wait` returns the block's value
    def after(seconds, name = nil, transient: false, &block)
      raise ArgumentError, "after needs a block" unless block
      raise ArgumentError, "seconds must be a number, not #{seconds.inspect}" unless seconds.is_a?(Numeric)

      due = Clock.now + seconds
      body = lambda do |task|
        Clock.sleep_until(due)
        block.call(task)
      end
      start_child(name, transient, Around.new(block, body))
    end

    # Runs a block periodically, as a child, at multiples of `seconds` from now. Skips missed beats.
    # An exception ends the child, and is reported at once unless a caller waits.
    # @param seconds [Numeric] before the first beat and between beats
    # @param name [String, nil]
    # @param transient [Boolean] whether it ends once only transient children are left
    # @yieldparam task [Task] the child
    # @return [Task] `stop` ends it
    def every(seconds, name = nil, transient: true, &block)
      raise ArgumentError, "every needs a block" unless block
      raise ArgumentError, "seconds must be a positive number, not #{seconds.inspect}" unless seconds.is_a?(Numeric) && seconds.positive?

      start = Clock.now
      body = lambda do |task|
        beat = 0
        while true
          beat = [beat + 1, ((Clock.now - start) / seconds).ceil].max
          Clock.sleep_until(start + (beat * seconds))
          block.call(task)
        end
      end
      start_child(name, transient, Around.new(block, body))
    end

    # Waits until the task is over.
    # @param timeout [Numeric, nil] seconds
    # @return [Object] the block's value; nil if the task was stopped
    # @raise [Exception] the block's, the same for each caller
    # @raise [TimeoutError] not in time; the task continues
    # @raise [Error] the task cannot end before this wait
    def wait(timeout: nil)
      finished? || await_end(timeout) or raise TimeoutError, "#{label} is not over after #{timeout} s"
      raise @outcome.ask if failed?

      value
    end

    # Waits like Thread#join.
    # @param timeout [Numeric, nil] seconds
    # @return [self, nil] nil after the timeout
    # @raise [Exception] the block's
    def join(timeout = nil)
      return unless finished? || await_end(timeout)

      wait
      self
    end

    # Waits for all children, including later ones, then for the task unless it is the caller.
    # @return [Object] as {#wait}; nil for the calling task
    # @raise [Exception] the first failed one's
    def wait_all
      while (child = children.find { |task| !task.transient? })
        child.wait
      end
      wait unless Task.current?.equal?(self)
    end

    # Sleeps; other tasks run.
    # @param seconds [Numeric, nil] nil: until stopped
    # @return [Integer] seconds slept, rounded
    def sleep(seconds = nil) = seconds ? Kernel.sleep(seconds) : Kernel.sleep

    # Runs other ready tasks first.
    # @return [nil]
    def yield
      scheduler.yield
      nil
    end

    # Runs the block with a time limit. When the time is over, ends the block's wait and raises
    # `exception` to the caller. The block's `ensure` runs, but the block cannot rescue `exception`.
    # Nested timeouts do not catch each other's exceptions. Never interrupts computing. At the limit
    # stops children started in the block (see Gyre.with_deadline).
    # @param seconds [Numeric, nil] nil: no limit; 0 or less: ends at the first wait
    # @param exception [Class, Exception]
    # @param message [String, nil] nil: the exception's own
    # @yieldparam deadline [Deadline]
    # @return [Object] the block's value
    def with_timeout(seconds, exception = TimeoutError, message = nil, &block)
      raise ArgumentError, "with_timeout needs a block" unless block
      return yield if seconds.nil? || seconds == Float::INFINITY

      Deadline.new(seconds, block).hold(scheduler) do |deadline|
        next TimeoutError.new(message, deadline) if exception == TimeoutError

        message ? exception.exception(message) : exception.exception
      end
    end

    # Stops the task and all tasks below it, the lowest first: each raises {Stop} once, at its wait.
    # `ensure` blocks run to their end before {#wait} returns. If the calling task is among these
    # tasks, raises Stop here. If called by another thread, only requests the stop.
    # @return [self]
    def stop
      return self if finished?
      return tap { run.stop_later(self) } unless here?
      raise Stop if stop_family

      self
    end
    alias cancel stop

    # Runs a block that no stop of this task or of a task above it interrupts; tasks below are not
    # stopped either. The stop waits for the block's end. An exception of the block takes
    # precedence. May be nested. This task's deadlines, `exit`, and a second Interrupt of Gyre.run
    # still interrupt it.
    # @return [Object] the block's value
    def defer_stop
      return yield if @stopping

      @stopping = :deferred
      begin
        yield
      rescue Exception # rubocop:disable Lint/RescueException -- it is raised again
        failed = true
        raise
      ensure
        end_deferral(failed)
      end
    end
    alias defer_cancel defer_stop

    # @return [Boolean] whether a stop waits for {#defer_stop}
    def stop_deferred? = @stopping.is_a?(Stop)
    alias cancel_deferred? stop_deferred?

    # @return [Symbol] :running, :completed, :failed, :stopped; :running until children end
    def status
      return :running unless finished?
      return :failed if @outcome.is_a?(Failure)

      @outcome.equal?(STOPPED) ? :stopped : :completed
    end

    # @return [Boolean] whether it is not over
    def alive? = !finished?
    alias running? alive?

    # @return [Boolean]
    def finished? = @block.nil?

    # @return [Boolean]
    def completed? = status == :completed

    # @return [Boolean] whether an exception ended it
    def failed? = finished? && @outcome.is_a?(Failure)

    # @return [Boolean]
    def stopped? = status == :stopped
    alias cancelled? stopped?

    # @return [Boolean] whether its parent does not wait for it
    def transient? = @transient

    # Returns the task's result without waiting or raising.
    # @return [Object, nil] value or exception; nil while running or if stopped
    def result = failed? ? @outcome.ask : value

    # @return [Array<Task>] unfinished children, the oldest first
    def children = @children.keys

    # Returns the task's deadline that ends first.
    # @return [Deadline, nil]
    def deadline = @context.nearest_deadline

    # Returns a value of this task. Later children inherit it; other tasks see no changes.
    # @param key [Object]
    # @return [Object, nil]
    def [](key) = @context.values[key]

    # @param key [Object]
    # @param value [Object]
    def []=(key, value)
      @context = @context.with_value(key, value)
    end

    # @param key [Object]
    # @return [Boolean] whether it was set
    def key?(key) = @context.values.key?(key)

    # Describes the task's work for {#print_hierarchy}.
    # @param text [String, nil]
    # @return [self]
    def annotate(text)
      @annotation = text
      self
    end

    # @return [Array<String>, nil] of the block; nil after the block's end
    def backtrace(*arguments) = @fiber&.backtrace(*arguments)

    # Prints the task and all tasks below it: name, annotation, wait, age, place.
    # @param out [#puts]
    # @param backtrace [Boolean] prints backtraces, without Gyre's own lines
    # @return [nil]
    def print_hierarchy(out = $stdout, backtrace: false) = Inspection::Hierarchy.new(scheduler, backtrace: backtrace).print(self, out)

    # @return [String] task "fetch", or task at app.rb:12
    def label
      return %(task "#{@name}") if @name

      path, line = @block&.source_location
      path ? "task at #{path}:#{line}" : "task"
    end

    # @return [String]
    def inspect = "#<#{self.class} #{label.delete_prefix("task ")} #{status}#{" (#{@annotation})" if @annotation}>"
    alias to_s inspect

    # The methods below are for Gyre::Run, Deadline, Selection and Inspection. @!visibility private

    # @return [Run]
    def run = @context.run

    # @return [Scheduler]
    def scheduler = @context.run.scheduler

    # @return [Float] since it was made
    def age_s = Clock.now - @made_at

    # @return [Boolean] whether its block has not begun
    def unstarted? = @fiber.nil? && @outcome.equal?(RUNNING)

    # @return [Boolean] whether a stop is under way
    def stopping? = !finished? && (@stopping == true || stop_deferred?)

    # Returns the block's fiber or, once the block is over, the children, which must end first.
    # @return [Array<Fiber, Task>]
    def awaited = @fiber ? [@fiber] : children.reject(&:transient?)

    # @return [Array<Task>] this task and all below, children before parents, younger before older
    def family(spare_deferring: false)
      list = [self]
      index = 0
      while (task = list[index])
        list.concat(task.children) unless spare_deferring && task.deferring?
        index += 1
      end
      list.reverse!
    end

    # Runs in the pooled fiber.
    def call
      outcome = STOPPED # also when the thread is killed, which nothing rescues
      @fiber = Fiber.current
      Thread.current[:gyre_task] = self
      outcome = @block.call(self)
    rescue Stop => stop
      outcome = failure(late(stop)) if stop.deadline&.unheard? # nothing else reports that it took too long
    rescue SystemExit, SignalException => error
      run.leave(error)
    rescue Exception => error # rubocop:disable Lint/RescueException
      scheduler.for_thread?(error) ? run.leave(error) : outcome = failure(error)
    ensure
      Thread.current[:gyre_task] = nil
      end_body(outcome)
      run.forker_ended(self)
    end

    # Waits for the task's end; does not raise its exception.
    # @param at [Float] until then, by Clock.now
    # @return [Boolean] whether it is over
    def join_until(at)
      over = finished? || await_end(at - Clock.now)
      @outcome.give_up(self) if over && failed?
      over
    end

    # Calls `listener.wake` at the task's end, or at once if it is over. Any thread may call it.
    # @param listener [#wake]
    def listen(listener)
      run.listen(self, listener)
      return unless finished? # in this order: the run looks for listeners after the task has finished

      run.unlisten(self, listener)
      listener.wake
    end

    # @param listener [#wake]
    def unlisten(listener)
      run.unlisten(self, listener)
      @outcome.give_up(self) if failed?
    end

    # Stops the task and waits for its end, for a caller that has an exception of its own.
    def abandon
      stop
      await_end unless finished?
      report_failure
    end

    # Reports an exception that no `wait` raises.
    def report_failure = (@outcome.report if @outcome.is_a?(Failure))

    # Called at Gyre.run's second interrupt: also interrupts tasks that are stopping.
    def stop_again = family.each { |task| task.interrupt(Stop.new, again: true) }

    # @param deadline [Deadline] passed; stops children started under it
    def stop_those_under(deadline) = children_under(deadline).each { |child| child.stop_late(deadline) }

    # @param deadline [Deadline]
    # @return [Array<Task>] children started under it
    def children_under(deadline) = children.select { |child| child.context.under?(deadline) }

    # Finishes tasks whose end an exception has interrupted, children first.
    def settle = family.each { |task| task.settle_alone } # protected: no symbol can call it

    # Called in a forked child, which lacks the waiters.
    def forget_waiters = @waiters = nil

    # @param fiber [Fiber] that the end of this task or of a task above it may not wake
    def forget_waiter(fiber)
      @waiters&.delete(fiber)
      @parent&.forget_waiter(fiber)
    end

    # Called in a forked child, which lacks this task's fiber. Ends the task, unless the forking
    # task is below it.
    def stay_behind
      @fiber = nil
      forget_waiters
      @outcome = STOPPED if @outcome.equal?(RUNNING)
      return unless @children.empty?

      @outcome = STOPPED if @outcome.is_a?(Failure)
      @block = nil
      @parent&.disown(self)
    end

    protected

    # @param child [Task] finished
    def disown(child) = @children.delete(child)

    # @return [Boolean]
    def deferring? = @stopping && @stopping != true

    # @return [Integer] exceptions sent to its block: a stop, ends of deadlines
    def interruptions
      count = @stopping == true ? 1 : 0
      @context.deadline ? count + @context.deadlines.count { |deadline| deadline.raising_in?(self) } : count
    end

    # @param stop [Stop]
    # @param again [Boolean] even if it is stopping
    # @param on_loop [Boolean] the caller is a callback and may not raise
    # @return [Boolean] whether the caller is this task and must raise the Stop
    def interrupt(stop, again: false, on_loop: false)
      return false if finished?

      if @stopping && !again
        @stopping = stop if @stopping == :deferred
        return false
      end
      @stopping = true
      if unstarted?
        end_body(STOPPED)
      elsif @fiber
        return true if !on_loop && Fiber.current.equal?(@fiber)

        scheduler.fiber_interrupt(@fiber, stop)
      end
      false
    end

    # @param deadline [Deadline]
    def stop_late(deadline) = stop_family(Stop.new("the task was stopped by its #{deadline}", deadline), on_loop: true)

    # Finishes the task if it has no children. Stops the children if all are transient.
    # @return [Task, nil] the parent, if finished
    def end_children
      return if @outcome.equal?(RUNNING)

      if @children.empty?
        finish
        @parent&.disown(self)
        @parent
      else
        stop_family if @children.all? { |child, _| child.transient? }
        nil
      end
    end

    def settle_alone
      return if @outcome.equal?(RUNNING)
      return stop_family unless @children.empty?

      finish unless finished?
      @parent&.disown(self)
    end

    private

    # Starts a child for a block, or for {Around}.
    def start_child(name, transient, block)
      raise Error, "#{label} is over: it can have no more children" if finished?
      raise Error, "#{label} belongs to another thread: start its children there" unless here?

      child = Task.new(self, name, transient, block, transient ? @context.with_deadline(nil) : @context)
      @children = {}.compare_by_identity if @children.equal?(NO_CHILDREN)
      @children[child] = true
      begin
        scheduler.spawn(child)
      ensure
        child.stop if child.unstarted? # the scheduler could make no fiber
      end
      child
    end

    def here? = scheduler.equal?(Fiber.scheduler)

    # @return [Object, nil] nil if stopped or not over
    def value = (@outcome if finished? && !@outcome.equal?(STOPPED))

    def failure(error) = Failure.new(run, @parent, label, error)

    def late(stop) = TimeoutError.new(nil, stop.deadline).tap { |error| error.set_backtrace(stop.backtrace) }

    # Thread#kill and Thread#raise may interrupt any line here. The `ensure` then ends tasks below
    # and above, as nothing else would.
    def end_body(outcome)
      ended = false
      @fiber = nil
      @outcome = outcome
      needed = !outcome.equal?(STOPPED) && !outcome.is_a?(Failure) && @stopping != true # a Stop may never have been raised
      stop_family unless needed || @children.empty?
      task = self
      task = task.end_children while task
      ended = true
    ensure
      unless ended
        @outcome = outcome
        run.root.settle
      end
    end

    def finish
      @outcome.expect((@waiters ? @waiters.size : 0) + run.listeners_count(self), self) if @outcome.is_a?(Failure)
      @block = nil
      waiters, @waiters = @waiters, nil
      waiters&.each { |fiber| scheduler.unblock(self, fiber) }
      run.task_finished(self)
    end

    # Parks the caller until the task's end. The caller is a fiber of the task's thread (cheap),
    # another fiber, or a thread.
    # @param timeout [Numeric, nil] seconds
    # @return [Boolean] whether it is over
    def await_end(timeout = nil)
      return await_in_other_thread(timeout) unless here?

      refuse_deadlock
      caller = Task.current?
      expected = caller&.interruptions
      fiber = Fiber.current
      @waiters ? @waiters << fiber : @waiters = [fiber]
      over = false
      begin
        parked = park_until_finished(timeout)
        Kernel.sleep while caller && caller.interruptions > expected && !masked?(fiber) # this task was stopped first, the caller is next
        over = parked
      ensure
        leave_waiters(fiber) unless over
      end
    end

    def masked?(fiber) = Scheduler::InterruptMasks.never?(fiber, fiber, Stop)

    def park_until_finished(timeout)
      Clock.within(timeout) do |left|
        break if finished?

        scheduler.block(self, left)
      end
      finished?
    end

    # Called when a waiter was stopped or is late.
    def leave_waiters(fiber)
      return (place = @waiters.index(fiber)) && @waiters.delete_at(place) unless finished?

      @outcome.give_up(self) if failed?
    end

    def await_in_other_thread(timeout)
      waiter = Waiter.new(self)
      over = false
      begin
        listen(waiter)
        over = waiter.park(timeout)
      ensure
        unlisten(waiter) unless over
      end
    end

    def refuse_deadlock
      task = Task.current?
      while task
        raise Error, "#{task.label} cannot end before the one that waits for it here" if task.equal?(self)

        task = task.parent
      end
    end

    def end_deferral(failed)
      stop = @stopping
      return if stop == true # it came through

      @stopping = false
      return if stop == :deferred

      raise stop if stop_family(stop, on_loop: failed)
    end

    # Stops this task and all tasks below it, except the calling task.
    # @return [Boolean] whether the calling task is among them
    def stop_family(stop = Stop.new, on_loop: false)
      own = false
      family(spare_deferring: true).each { |task| own = true if task.interrupt(task.equal?(self) ? stop : Stop.new, on_loop: on_loop) }
      own
    end
  end
end
