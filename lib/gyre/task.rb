# frozen_string_literal: true

# A task: a block that runs in a pooled fiber beside others, with a parent that outlives it.
# Gyre.run makes the first one of a tree and Task#async the others. Works on any Gyre::Scheduler
# through its public methods only. A task belongs to one thread; from other threads only `wait`,
# `stop` and the questions are allowed.

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

  # Work that goes on beside other work. A task is over when its block has ended *and* all its
  # children are over: those that it does not need any more, because its block failed or was
  # stopped, it stops; for the others it waits.
  #
  #   body runs ──ends well──► waits for its children ──────────────┐
  #       │                    (stops transient ones at the end)    ├─► finished: :completed, :failed or :stopped
  #       └─raises or stopped─► stops its children, waits for them ─┘
  #
  # What @stopping holds:
  #
  #   false ──stop──► true             Stop is on its way, or has been raised
  #     │ ▲                            (the end of a defer_stop raises what came meanwhile, and is true then)
  #     ▼ │
  #   :deferred ──stop──► a Stop       inside of a defer_stop; no task below is stopped either
  class Task
    include Inspection::Awaited

    # The task that runs the calling code.
    # @return [Task]
    # @raise [RuntimeError] outside of any task
    def self.current
      current? or raise "no task here: wrap the code in Gyre.run { }"
    end

    # @return [Task, nil] the task that runs the calling code, if any
    def self.current?
      Thread.current[:gyre_task]
    end

    # @return [Task, nil] nil for the one that Gyre.run made
    attr_reader :parent
    # @return [String, nil] as given to {#async}
    attr_reader :name
    # @return [String, nil] as given to {#annotate}
    attr_reader :annotation
    # @return [Fiber, nil] the one that runs its block; nil before and after that
    # @api private
    attr_reader :fiber
    # @return [Context] its values and its innermost deadline
    # @api private
    attr_accessor :context

    # Use {#async} or Gyre.run.
    # @api private
    def initialize(run, parent, name, transient, block, context = Context::NONE)
      @run = run
      @parent = parent
      @name = name
      @transient = transient
      @block = block
      @context = context
      @made_at = Clock.now
      @status = :running
      @result = @fiber = @waiters = @listeners = @annotation = nil
      @children = Children::NONE
      @finished = @stopping = false
    end

    # Starts a child. It runs at once, up to its first wait; then the caller goes on.
    #
    # @param name [String, nil] for reports and {#print_hierarchy}
    # @param transient [Boolean] a transient child does not keep its parent waiting: it is stopped
    #   when only transient children are left. It is under none of its parent's deadlines, and its
    #   exception is reported at once.
    # @yieldparam task [Task] the child
    # @return [Task] the child; its value or exception comes from {#wait}
    # @raise [Error] when this task is over or belongs to another thread
    def async(name = nil, transient: false, &block)
      raise ArgumentError, "async needs a block" unless block
      raise Error, "#{label} is over: it can have no more children" if @finished
      raise Error, "#{label} belongs to another thread: start its children there" unless here?

      child = Task.new(@run, self, name, transient, block, transient ? @context.with_deadline(nil) : @context)
      @children = Children.new if @children.equal?(Children::NONE)
      @children.add(child)
      begin
        @run.scheduler.spawn(child)
      ensure
        child.stop if child.unstarted? # the scheduler could make no fiber
      end
      child
    end

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
        Clock.sleep_until(due)
        block.call(task)
      end
    end

    # Runs a block again and again, as a child. The beats stand at multiples of the time from now
    # on, however long the block takes; those that it misses are left out. An exception ends it: as
    # it is transient, it is reported at once unless a caller waits for the child.
    #
    # @param seconds [Numeric] from beat to beat; the first one comes after as long
    # @param name [String, nil]
    # @param transient [Boolean] whether it ends when only transient children are left; `wait` for
    #   it where it is all that there is to do
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
    #
    # @param timeout [Numeric, nil] seconds
    # @return [Object] the block's value; nil when the task was stopped
    # @raise [Exception] what the block raised, the same exception for each caller that waits
    # @raise [TimeoutError] when it is not over in time; the task goes on
    # @raise [Error] when the task waits for itself or for one that cannot end before it
    def wait(timeout: nil)
      @finished || await_end(timeout) or raise TimeoutError, "#{label} is not over after #{timeout} s"

      case @status
      when :completed then @result
      when :failed then raise @result.ask
      end
    end

    # Waits as Thread#join does.
    #
    # @param timeout [Numeric, nil] seconds
    # @return [self, nil] nil when the task is not over in time
    # @raise [Exception] what the block raised
    def join(timeout = nil)
      return unless @finished || await_end(timeout)

      wait
      self
    end

    # Waits until all children are over, also those that come meanwhile, and then for the task
    # itself unless it is the calling one.
    #
    # @return [Object] as {#wait}; nil for the calling task
    # @raise [Exception] what the first failed one raised
    def wait_all
      while (child = children.find { |task| !task.transient? })
        child.wait
      end
      wait unless Task.current?.equal?(self)
    end

    # Sleeps; other tasks run.
    #
    # @param seconds [Numeric, nil] none: until stopped
    # @return [Integer] the seconds slept, rounded
    def sleep(seconds = nil)
      seconds ? Kernel.sleep(seconds) : Kernel.sleep
    end

    # Lets every other task that is ready run first.
    # @return [nil]
    def yield
      @run.scheduler.yield
      nil
    end

    # Runs the block and raises `exception` when it takes too long: at its present wait, so a block
    # that only computes is not cut off. Inside the block the end of the time cannot be rescued as
    # that exception, but `ensure` runs; timeouts within timeouts are told apart. Children that are
    # started in the block are stopped when the time is over before the block has ended; later it
    # does not concern them (see Gyre.with_deadline).
    #
    # @param seconds [Numeric, nil] nil: no limit. Zero or less: the time is over at the block's
    #   first wait.
    # @param exception [Class, Exception] what to raise
    # @param message [String, nil] its message; nil takes the exception's own
    # @yieldparam deadline [Deadline]
    # @return [Object] the block's value
    def with_timeout(seconds, exception = TimeoutError, message = nil, &block)
      raise ArgumentError, "with_timeout needs a block" unless block
      return yield if seconds.nil? || seconds == Float::INFINITY

      Deadline.new(seconds, block).hold(@run.scheduler) do |deadline|
        next TimeoutError.new(message, deadline) if exception == TimeoutError

        message ? exception.exception(message) : exception.exception
      end
    end

    # Stops the task and everything below it: each raises {Stop} at its present wait, those below
    # first, once. Its `ensure` blocks run to their end, also when they wait; {#wait} returns after
    # that. A task that is over stays as it is. Stopping oneself, or a task above, raises Stop here.
    # From another thread it only asks for it.
    #
    # @return [self]
    def stop
      return self if @finished
      return tap { @run.stop_later(self) } unless here?
      raise Stop if stop_family

      self
    end
    alias cancel stop

    # Runs a block that a stop must not cut off. One that comes meanwhile, for this task or for one
    # above it, waits: Stop is raised when the block has ended; when the block raises something
    # else, that goes first. May be nested. What is below the task is not stopped either until then.
    # Deadlines that are set in this task, `exit` and a second Interrupt of Gyre.run still get
    # through.
    #
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

    # @return [Boolean] whether a stop has come that waits for the end of a {#defer_stop}
    def stop_deferred?
      @stopping.is_a?(Stop)
    end
    alias cancel_deferred? stop_deferred?

    # @return [Symbol] :running until the block and all children are over; then :completed, :failed
    #   or :stopped
    def status
      @finished ? @status : :running
    end

    # @return [Boolean] whether the task is not over yet
    def alive? = !@finished
    alias running? alive?

    # @return [Boolean]
    def finished? = @finished

    # @return [Boolean] whether its block ended well
    def completed? = status == :completed

    # @return [Boolean] whether an exception ended it
    def failed? = status == :failed

    # @return [Boolean] whether it was stopped
    def stopped? = status == :stopped
    alias cancelled? stopped?

    # @return [Boolean] whether its parent does not wait for it
    def transient? = @transient

    # What came of the task, without waiting and without raising.
    # @return [Object, nil] the block's value, or the exception that it raised; nil while running
    #   and when stopped
    def result
      return unless @finished

      @status == :failed ? @result.ask : @result
    end

    # @return [Array<Task>] the children that are not over yet, the oldest first
    def children = @children.to_a

    # The deadline that passes first of all that the task is under.
    # @return [Deadline, nil]
    def deadline = @context.nearest_deadline

    # A value of this task. Children start with those that their parent has at that moment; what a
    # task sets itself, its parent and its siblings do not see.
    #
    # @param key [Object]
    # @return [Object, nil]
    def [](key) = @context.values[key]

    # @param key [Object]
    # @param value [Object]
    def []=(key, value)
      @context = @context.with_value(key, value)
    end

    # @param key [Object]
    # @return [Boolean] whether it has been set, be it to nil
    def key?(key) = @context.values.key?(key)

    # Notes what the task is doing at the moment, for {#print_hierarchy}.
    # @param text [String, nil]
    # @return [self]
    def annotate(text)
      @annotation = text
      self
    end

    # Where its block is at the moment.
    # @return [Array<String>, nil] nil when its block is over
    def backtrace(*arguments)
      @fiber&.backtrace(*arguments)
    end

    # Prints the task and all below it, one line for each: name, annotation, what it waits for, age,
    # place.
    # @param out [#puts]
    # @param backtrace [Boolean] prints all of where each task is, without Gyre's own part of it
    # @return [nil]
    def print_hierarchy(out = $stdout, backtrace: false)
      Inspection::Hierarchy.new(@run.scheduler, backtrace: backtrace).print(self, out)
    end

    # @return [String] how the task is called in messages: task "fetch", or task at app.rb:12
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

    # The rest is for Gyre::Run, Deadline, Selection and Inspection.
    # @!visibility private

    # @return [Scheduler]
    def scheduler = @run.scheduler

    # @return [Float] seconds since it was made
    def age_s = Clock.now - @made_at

    # @return [Boolean] whether it has been made, and its block has not begun
    def unstarted? = @fiber.nil? && @status == :running

    # @return [Boolean] whether it was asked to stop, and is not over
    def stopping? = !@finished && (@stopping == true || stop_deferred?)

    # What has to go on first, for the task to end: its block, then its children.
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

    # What the pooled fiber runs.
    def call
      @fiber = Fiber.current
      Thread.current[:gyre_task] = self
      outcome = :stopped # also when the thread is killed, which nothing rescues
      result = nil
      result = @block.call(self)
      outcome = :completed
    rescue Stop => stop
      if stop.deadline&.unheard? # nothing else reports that it took too long
        outcome = :failed
        result = TimeoutError.new(nil, stop.deadline)
        result.set_backtrace(stop.backtrace)
      end
    rescue SystemExit, SignalException => error
      @run.leave(error)
    rescue Exception => error # rubocop:disable Lint/RescueException
      if scheduler.for_thread?(error)
        @run.leave(error)
      else
        outcome = :failed
        result = error
      end
    ensure
      Thread.current[:gyre_task] = nil
      end_body(outcome, result)
      @run.forker_ended(self)
    end

    # Waits until the task is over, and leaves its exception to others.
    # @param at [Float] until this time of Clock.now at most
    # @return [Boolean] whether it is over
    def join_until(at)
      over = @finished || await_end(at - Clock.now)
      @result.give_up(self) if over && @status == :failed
      over
    end

    # Has `listener.wake` called when the task is over; at once if it is. From any thread.
    # @param listener [#wake]
    def listen(listener)
      @run.lock.synchronize { (@listeners ||= []) << listener }
      listener.wake if @finished # in this order: the task looks for listeners after it has finished
    end

    # Ends a `listen`, and leaves the task's exception to others.
    # @param listener [#wake]
    def unlisten(listener)
      @run.lock.synchronize { @listeners&.delete(listener) }
      @result.give_up(self) if @finished && @status == :failed
    end

    # Stops it for a caller that cannot leave before it is over, and that has an exception of its
    # own to raise.
    def abandon
      stop
      await_end unless @finished
      report_failure
    end

    # Reports its exception, which no `wait` will raise any more.
    def report_failure
      @result.report if @status == :failed
    end

    # For Gyre.run, when it is interrupted again: stops also those that are stopping already.
    def stop_again
      family.each { |task| task.interrupt(Stop.new, again: true) }
    end

    # @param deadline [Deadline] one that has passed: stops the children that were started under it
    def stop_those_under(deadline)
      children_under(deadline).each { |child| child.stop_late(deadline) }
    end

    # @param deadline [Deadline]
    # @return [Array<Task>] the children that were started under it
    def children_under(deadline)
      children.select { |child| child.context.under?(deadline) }
    end

    # After an exception that came from outside while some task was ending: does what that has left
    # undone, from the leaves up.
    def settle
      family.each { |task| task.settle_alone } # protected: no symbol can call it
    end

    # In a forked child: the waiters are in the parent.
    def forget_waiters
      @waiters = @listeners = nil
    end

    # In a forked child: its fiber is in the parent. It is over, unless the task that forked is
    # below it.
    def stay_behind
      @fiber = nil
      forget_waiters
      @status = :stopped if @status == :running
      return unless @children.empty?

      @status = :stopped unless @status == :completed
      @result = nil if @status == :stopped
      finish_alone
      @parent&.disown(self)
    end

    protected

    # @param child [Task] one that has finished
    def disown(child) = @children.delete(child)

    # @return [Boolean] whether it is inside of a defer_stop
    def deferring? = @stopping && @stopping != true

    # @return [Integer] how many exceptions have been on their way to its block so far: a stop, ends
    #   of deadlines
    def interruptions
      count = @stopping == true ? 1 : 0
      @context.deadline ? count + @context.deadlines.count { |deadline| deadline.raising_in?(self) } : count
    end

    # @param stop [Stop] what to raise
    # @param again [Boolean] whether also when it is stopping already
    # @param on_loop [Boolean] whether the caller is a callback, in which nothing may be raised
    # @return [Boolean] whether the calling fiber is this task's own, and the Stop is to be raised
    #   here
    def interrupt(stop, again: false, on_loop: false)
      return false if @finished

      if @stopping && !again
        @stopping = stop if @stopping == :deferred
        return false
      end
      @stopping = true
      if unstarted?
        end_body(:stopped, nil)
      elsif @fiber
        return true if !on_loop && Fiber.current.equal?(@fiber)

        @run.scheduler.fiber_interrupt(@fiber, stop)
      end
      false
    end

    # Its time, which it has from its parent, is over.
    # @param deadline [Deadline]
    def stop_late(deadline)
      stop_family(Stop.new("the task was stopped by its #{deadline}", deadline), on_loop: true)
    end

    # When the body is over: stops children that are needed no longer, or finishes if there are
    # none.
    # @return [Task, nil] the parent, when this task has finished
    def end_children
      return if @status == :running

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
      return if @status == :running
      return stop_family unless @children.empty?

      finish unless @finished
      @parent&.disown(self)
    end

    private

    def here? = @run.scheduler.equal?(Fiber.scheduler)

    # Thread#kill and Thread#raise may strike at any line, here too, and nothing else would end what
    # is below and above.
    def end_body(outcome, result)
      ended = false
      @fiber = nil
      @status = outcome
      @result = result
      stop_family if !@children.empty? && (outcome != :completed || @stopping == true) # a Stop may never have been raised
      task = self
      task = task.end_children while task
      ended = true
    ensure
      unless ended
        @status = outcome
        @result ||= result
        @run.root.settle
      end
    end

    def finish
      fail_with(@result) if @status == :failed && !@result.is_a?(Failure)
      finish_alone
      wake_waiters
      @run.task_finished(self)
    end

    def finish_alone
      @block = nil
      @finished = true
    end

    # The root's failure goes to Gyre.run, which always asks. No `wait` is expected for a transient
    # task, and its parent may go on for long.
    def fail_with(error)
      waiting = (@waiters ? @waiters.size : 0) + (@listeners ? @listeners.size : 0)
      @result = Failure.new(@run, @parent, label, error, waiting)
      return unless waiting.zero? && @parent

      @transient ? @result.report : @run.unawaited.add(@result, self)
    end

    def wake_waiters
      waiters, @waiters = @waiters, nil
      waiters&.each { |fiber| @run.scheduler.unblock(self, fiber) }
      return unless @listeners

      listeners = @run.lock.synchronize { @listeners.tap { @listeners = nil } }
      listeners.each(&:wake) # without the lock: it may have to wait for another one
    end

    # Parks the caller until the task is over: a fiber of its own thread, which is cheap, or of
    # another one, or a thread.
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
      deadline = timeout && (Clock.now + timeout)
      until @finished
        left = deadline && (deadline - Clock.now)
        return false if left && left <= 0

        @run.scheduler.block(self, left)
      end
      true
    end

    # A waiter was stopped, or its time is over.
    def leave_waiters(fiber)
      if @finished
        @result.give_up(self) if @status == :failed
      else
        @waiters.delete_at(@waiters.index(fiber))
      end
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

    # Stops this task and all below it, except for the calling one.
    # @return [Boolean] whether the calling one is among them
    def stop_family(stop = Stop.new, on_loop: false)
      own = false
      family(spare_deferring: true).each do |task|
        own = true if task.interrupt(task.equal?(self) ? stop : Stop.new, on_loop: on_loop)
      end
      own
    end
  end
end
