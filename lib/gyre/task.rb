# frozen_string_literal: true

# A task: a block that runs in a pooled fiber beside others, with a parent that outlives it.
# Gyre.run makes the first task of a tree, Task#async the others. Works on any Gyre::Scheduler
# through public methods only. A task belongs to one thread; other threads may only call `wait`,
# `stop` and the questions.

require "gyre/clock"
require "gyre/deadline"
require "gyre/errors"
require "gyre/inspection/hierarchy"
require "gyre/sync/waiter"
require "gyre/task/children"
require "gyre/task/context"
require "gyre/task/expired"
require "gyre/task/failure"

module Gyre
  # (see Task#after)
  def self.after(seconds, name = nil, **options, &block)
    Task.current.after(seconds, name, **options, &block)
  end

  # (see Task#every)
  def self.every(seconds, name = nil, **options, &block)
    Task.current.every(seconds, name, **options, &block)
  end

  # Work that runs beside other work. A task is over when its block has ended *and* all its children
  # are over: it waits for them, or stops them if its block failed or was stopped.
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
  # @outcome: RUNNING, then the block's value, a Failure or STOPPED. @block: nil once it is over.
  class Task
    include Inspection::Awaited

    RUNNING = Object.new.freeze
    STOPPED = Object.new.freeze
    private_constant :RUNNING, :STOPPED

    # The task of the calling code.
    # @return [Task]
    # @raise [RuntimeError] outside of any task
    def self.current
      current? or raise "no task here: wrap the code in Gyre.run { }"
    end

    # @return [Task, nil] the task of the calling code, if any
    def self.current? = Thread.current[:gyre_task]

    # @return [Task, nil] nil for a root
    attr_reader :parent
    # @return [String, nil] as given to {#async}
    attr_reader :name
    # @return [String, nil] as given to {#annotate}
    attr_reader :annotation
    # @return [Fiber, nil] runs its block; nil before and after
    # @api private
    attr_reader :fiber
    # @return [Context] its values and its innermost deadline
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
      @children = Children::NONE
      @stopping = false
    end

    # Starts a child. Runs at once, up to its first wait; then the caller continues.
    # @param name [String, nil] for reports and {#print_hierarchy}
    # @param transient [Boolean] a transient child does not keep its parent waiting: it is stopped
    #   once only transient children are left. Its parent's deadlines do not apply, and its
    #   exception is reported at once.
    # @yieldparam task [Task] the child
    # @return [Task] the child; its value or exception comes from {#wait}
    # @raise [Error] when this task is over or belongs to another thread
    def async(name = nil, transient: false, &block)
      raise ArgumentError, "async needs a block" unless block
      raise Error, "#{label} is over: it can have no more children" if finished?
      raise Error, "#{label} belongs to another thread: start its children there" unless here?

      child = Task.new(self, name, transient, block, transient ? @context.with_deadline(nil) : @context)
      @children = Children.new if @children.equal?(Children::NONE)
      @children.add(child)
      begin
        scheduler.spawn(child)
      ensure
        child.stop if child.unstarted? # the scheduler could make no fiber
      end
      child
    end

    # Runs a block later, as a child.
    # @param seconds [Numeric] from now
    # @param name [String, nil]
    # @param transient [Boolean] whether it is dropped once only transient children are left
    # @yieldparam task [Task] the child
    # @return [Task] the child: `stop` cancels it, `wait` returns the block's value
    def after(seconds, name = nil, transient: false, &block)
      raise ArgumentError, "after needs a block" unless block
      raise ArgumentError, "seconds must be a number, not #{seconds.inspect}" unless seconds.is_a?(Numeric)

      due = Clock.now + seconds
      async(name, transient: transient) do |task|
        Clock.sleep_until(due)
        block.call(task)
      end
    end

    # Runs a block periodically, as a child. Runs at multiples of the time from now on, however long
    # the block takes, and leaves out those that it has missed. An exception ends it, and is
    # reported at once unless a caller waits for the child, as the child is transient.
    # @param seconds [Numeric] between beats, and before the first
    # @param name [String, nil]
    # @param transient [Boolean] whether it ends once only transient children are left; `wait` for
    #   it if there is nothing else to do
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
          Clock.sleep_until(start + (beat * seconds))
          block.call(task)
        end
      end
    end

    # Waits until the task is over.
    # @param timeout [Numeric, nil] seconds
    # @return [Object] the block's value; nil if the task was stopped
    # @raise [Exception] the block's exception, the same for each caller
    # @raise [TimeoutError] if it is not over in time; the task goes on
    # @raise [Error] if the task waits for itself or for one that cannot end first
    def wait(timeout: nil)
      finished? || await_end(timeout) or raise TimeoutError, "#{label} is not over after #{timeout} s"
      raise @outcome.ask if failed?

      value
    end

    # Waits as Thread#join does.
    # @param timeout [Numeric, nil] seconds
    # @return [self, nil] nil when the task is not over in time
    # @raise [Exception] what the block raised
    def join(timeout = nil)
      return unless finished? || await_end(timeout)

      wait
      self
    end

    # Waits until all children are over, including those started meanwhile, then for the task itself
    # unless it is the calling one.
    # @return [Object] as {#wait}; nil for the calling task
    # @raise [Exception] what the first failed one raised
    def wait_all
      while (child = children.find { |task| !task.transient? })
        child.wait
      end
      wait unless Task.current?.equal?(self)
    end

    # Sleeps; other tasks run.
    # @param seconds [Numeric, nil] none: until stopped
    # @return [Integer] the seconds slept, rounded
    def sleep(seconds = nil) = seconds ? Kernel.sleep(seconds) : Kernel.sleep

    # Runs every other ready task first.
    # @return [nil]
    def yield
      scheduler.yield
      nil
    end

    # Runs the block and raises `exception` at its present wait if it takes too long; a block that
    # only computes is not interrupted. The block cannot rescue that exception, but its `ensure`
    # runs; nested timeouts are kept apart. Children started in the block are stopped if the time
    # ends before the block, and unaffected afterwards (see Gyre.with_deadline).
    # @param seconds [Numeric, nil] nil: no limit. Zero or less: ends at the block's first wait.
    # @param exception [Class, Exception] what to raise
    # @param message [String, nil] its message; nil takes the exception's own
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

    # Stops the task and everything below it: each raises {Stop} at its present wait, once, the
    # lowest first. `ensure` blocks run to their end, even if they wait; {#wait} returns after that.
    # Ignores a finished task. Stopping the calling task, or one above it, raises Stop here. Only
    # requests the stop from another thread.
    # @return [self]
    def stop
      return self if finished?
      return tap { run.stop_later(self) } unless here?
      raise Stop if stop_family

      self
    end
    alias cancel stop

    # Runs a block that a stop must not interrupt. A stop of this task, or of one above it, waits
    # for the block's end; an exception of the block takes precedence. May be nested. Tasks below
    # are not stopped before that either. It can still be interrupted by deadlines set in this task,
    # by `exit`, and by a second Interrupt of Gyre.run.
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

    # @return [Boolean] whether a stop waits for the end of a {#defer_stop}
    def stop_deferred? = @stopping.is_a?(Stop)
    alias cancel_deferred? stop_deferred?

    # @return [Symbol] :running until the block and all children are over; then :completed, :failed
    #   or :stopped
    def status
      return :running unless finished?
      return :failed if @outcome.is_a?(Failure)

      @outcome.equal?(STOPPED) ? :stopped : :completed
    end

    # @return [Boolean] whether the task is not over yet
    def alive? = !finished?
    alias running? alive?

    # @return [Boolean]
    def finished? = @block.nil?

    # @return [Boolean] whether its block ended well
    def completed? = status == :completed

    # @return [Boolean] whether an exception ended it
    def failed? = finished? && @outcome.is_a?(Failure)

    # @return [Boolean] whether it was stopped
    def stopped? = status == :stopped
    alias cancelled? stopped?

    # @return [Boolean] whether its parent does not wait for it
    def transient? = @transient

    # The task's result, without waiting or raising.
    # @return [Object, nil] the block's value or exception; nil while running and after a stop
    def result = failed? ? @outcome.ask : value

    # @return [Array<Task>] the children that are not over yet, the oldest first
    def children = @children.to_a

    # The first deadline of the task to pass.
    # @return [Deadline, nil]
    def deadline = @context.nearest_deadline

    # A value of this task. Children start with their parent's present values; a task's own changes
    # are invisible to parent and siblings.
    # @param key [Object]
    # @return [Object, nil]
    def [](key) = @context.values[key]

    # @param key [Object]
    # @param value [Object]
    def []=(key, value)
      @context = @context.with_value(key, value)
    end

    # @param key [Object]
    # @return [Boolean] whether it was set, even to nil
    def key?(key) = @context.values.key?(key)

    # Describes the task's present work, for {#print_hierarchy}.
    # @param text [String, nil]
    # @return [self]
    def annotate(text)
      @annotation = text
      self
    end

    # The present backtrace of its block.
    # @return [Array<String>, nil] nil after its end
    def backtrace(*arguments) = @fiber&.backtrace(*arguments)

    # Prints the task and all below it, a line each: name, annotation, wait, age, place.
    # @param out [#puts]
    # @param backtrace [Boolean] prints each task's whole backtrace, without Gyre's own part
    # @return [nil]
    def print_hierarchy(out = $stdout, backtrace: false)
      Inspection::Hierarchy.new(scheduler, backtrace: backtrace).print(self, out)
    end

    # @return [String] its name in messages: task "fetch", or task at app.rb:12
    def label
      return %(task "#{@name}") if @name

      path, line = @block&.source_location
      path ? "task at #{path}:#{line}" : "task"
    end

    # @return [String]
    def inspect
      "#<#{self.class} #{label.delete_prefix("task ")} #{status}#{" (#{@annotation})" if @annotation}>"
    end
    alias to_s inspect

    # For Gyre::Run, Deadline, Selection and Inspection. @!visibility private

    # @return [Run]
    def run = @context.run

    # @return [Scheduler]
    def scheduler = @context.run.scheduler

    # @return [Float] seconds since it was made
    def age_s = Clock.now - @made_at

    # @return [Boolean] whether its block has not begun
    def unstarted? = @fiber.nil? && @outcome.equal?(RUNNING)

    # @return [Boolean] whether it was asked to stop and is not over
    def stopping? = !finished? && (@stopping == true || stop_deferred?)

    # Returns the fiber or task that must end before this task can: its block's, then its children.
    # @return [Array<Fiber, Task>]
    def awaited = @fiber ? [@fiber] : children.reject(&:transient?)

    # @return [Array<Task>] this task and all below it; children come before their parents, younger
    #   before older ones
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

    # Waits until the task is over, leaving its exception to others.
    # @param at [Float] until this time of Clock.now at most
    # @return [Boolean] whether it is over
    def join_until(at)
      over = finished? || await_end(at - Clock.now)
      @outcome.give_up(self) if over && failed?
      over
    end

    # Calls `listener.wake` when the task is over, or at once. From any thread.
    # @param listener [#wake]
    def listen(listener)
      run.listen(self, listener)
      return unless finished? # in this order: the run looks for listeners after the task has finished

      run.unlisten(self, listener)
      listener.wake
    end

    # Ends a `listen`, leaving the task's exception to others.
    # @param listener [#wake]
    def unlisten(listener)
      run.unlisten(self, listener)
      @outcome.give_up(self) if failed?
    end

    # Stops it for a caller that must wait for it and has an exception of its own to raise.
    def abandon
      stop
      await_end unless finished?
      report_failure
    end

    # Reports an exception that no `wait` will raise.
    def report_failure
      @outcome.report if @outcome.is_a?(Failure)
    end

    # For a second interrupt of Gyre.run: also stops tasks that are stopping already.
    def stop_again
      family.each { |task| task.interrupt(Stop.new, again: true) }
    end

    # @param deadline [Deadline] a passed one, which stops the children started under it
    def stop_those_under(deadline)
      children_under(deadline).each { |child| child.stop_late(deadline) }
    end

    # @param deadline [Deadline]
    # @return [Array<Task>] children started under it
    def children_under(deadline)
      children.select { |child| child.context.under?(deadline) }
    end

    # An exception from outside may have interrupted the ends of tasks: completes them, from the
    # leaves up.
    def settle
      family.each { |task| task.settle_alone } # protected: no symbol can call it
    end

    # Drops waiters in a forked child: they are in the parent.
    def forget_waiters
      @waiters = nil
    end

    # Drops the fiber in a forked child: it is in the parent. Ends the task, unless the forking task
    # is below it.
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

    # @param child [Task] a finished one
    def disown(child) = @children.delete(child)

    # @return [Boolean] whether it is in a defer_stop
    def deferring? = @stopping && @stopping != true

    # @return [Integer] number of exceptions sent to its block so far: a stop, ends of deadlines
    def interruptions
      count = @stopping == true ? 1 : 0
      @context.deadline ? count + @context.deadlines.count { |deadline| deadline.raising_in?(self) } : count
    end

    # @param stop [Stop] the exception
    # @param again [Boolean] even if it is stopping already
    # @param on_loop [Boolean] the caller is a callback, which may raise nothing
    # @return [Boolean] whether the caller is this task, and has to raise the Stop
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

    # Stops the task after its parent's deadline.
    # @param deadline [Deadline]
    def stop_late(deadline)
      stop_family(Stop.new("the task was stopped by its #{deadline}", deadline), on_loop: true)
    end

    # After the body: stops children that are not needed, or finishes without children.
    # @return [Task, nil] the parent, if this task has finished
    def end_children
      return if @outcome.equal?(RUNNING)

      if @children.empty?
        finish
        @parent&.disown(self)
        @parent
      else
        stop_family unless @children.needed?
        nil
      end
    end

    def settle_alone
      @children.recount unless @children.empty?
      return if @outcome.equal?(RUNNING)
      return stop_family unless @children.empty?

      finish unless finished?
      @parent&.disown(self)
    end

    private

    def here? = scheduler.equal?(Fiber.scheduler)

    # @return [Object, nil] nil when it was stopped, or is not over
    def value
      @outcome if finished? && !@outcome.equal?(STOPPED)
    end

    def failure(error) = Failure.new(run, @parent, label, error)

    def late(stop)
      TimeoutError.new(nil, stop.deadline).tap { |error| error.set_backtrace(stop.backtrace) }
    end

    # Thread#kill and Thread#raise may strike at any line, even here, and nothing else would end the
    # tasks below and above.
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

    # Parks the caller until the task is over: a fiber of its own thread (cheap) or of another, or a
    # thread.
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
        Kernel.sleep while caller && caller.interruptions > expected # this task was stopped first, the caller is next
        over = parked
      ensure
        leave_waiters(fiber) unless over
      end
    end

    def park_until_finished(timeout)
      Clock.within(timeout) do |left|
        break if finished?

        scheduler.block(self, left)
      end
      finished?
    end

    # Called when a waiter was stopped, or is out of time.
    def leave_waiters(fiber)
      return @waiters.delete_at(@waiters.index(fiber)) unless finished?

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

    # Stops this task and all below it, except the calling one.
    # @return [Boolean] whether that one is among them
    def stop_family(stop = Stop.new, on_loop: false)
      own = false
      family(spare_deferring: true).each do |task|
        own = true if task.interrupt(task.equal?(self) ? stop : Stop.new, on_loop: on_loop)
      end
      own
    end
  end
end
