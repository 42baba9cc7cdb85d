# frozen_string_literal: true

# Gyre.run: takes or makes the thread's scheduler, runs a block as the root of a tree of tasks, and
# returns when all have ended. A Gyre::Run is a single call of Gyre.run.

require "gyre/task"
require "gyre/task/unawaited"
require "gyre/inspection/watchdog"

module Gyre
  # Runs the block as a task and waits for the task and its children. If the thread has no
  # scheduler, it gets one meanwhile. Inside a task the block runs as a child of that task.
  #
  # If the block raises an exception, stops the other tasks and waits for their `ensure` blocks. An
  # Interrupt, any task's `exit`, Thread#kill, Thread#raise and a surrounding timeout do the same. A
  # second Interrupt cuts the `ensure` blocks short.
  # @param name [String] the task's name
  # @param watchdog [Numeric, Boolean, nil] seconds until a blocked loop is reported; true: default
  # @yieldparam task [Task]
  # @return [Object] the block's value; nil if stopped
  # @raise [Exception] the block's
  # @raise [Error] the thread's scheduler is not Gyre's
  def self.run(name = "main", watchdog: nil, &block)
    raise ArgumentError, "Gyre.run needs a block" unless block

    if Task.current?
      return Run.nested(Task.current, name, block) unless watchdog

      Watchdog.guard(Fiber.scheduler, watchdog) { Run.nested(Task.current, name, block) }
    elsif Fiber.scheduler
      Run.on_existing(Fiber.scheduler, name, watchdog, block)
    else
      Run.on_new_scheduler(name, watchdog, block)
    end
  end

  # @api private
  class Run
    include Inspection::Awaited

    # Called in a thread that has no scheduler.
    def self.on_new_scheduler(name, watchdog, block)
      scheduler = Scheduler.new
      Fiber.set_scheduler(scheduler)
      begin
        value = Watchdog.guard(scheduler, watchdog) { new(scheduler, drives: true).call(name, block) }
        ended = true
        value
      ensure
        Scheduler.leave(!ended)
      end
    end

    # Called if the thread has a scheduler; drives it unless another fiber does.
    def self.on_existing(scheduler, name, watchdog, block)
      raise Error, "Gyre.run needs a Gyre::Scheduler, but this thread has a #{scheduler.class}" unless scheduler.is_a?(Scheduler)

      drives = Fiber.current.blocking? && !scheduler.loop_running?
      Watchdog.guard(scheduler, watchdog) { new(scheduler, drives: drives).call(name, block) }
    end

    def self.nested(parent, name, block)
      child = parent.async(name, &block)
      begin
        child.wait
      ensure
        child.abandon unless child.finished?
      end
    end

    # @return [Scheduler]
    attr_reader :scheduler
    # @return [Fiber] Gyre.run's caller
    attr_reader :fiber
    # @return [Task]
    attr_reader :root
    # @return [Task::Unawaited]
    attr_reader :unawaited
    # @return [SpinLock] for other threads' waits
    attr_reader :lock

    # @param scheduler [Scheduler]
    # @param drives [Boolean] whether this call drives the loop, or waits
    def initialize(scheduler, drives:)
      @scheduler = scheduler
      @drives = drives
      @fiber = Fiber.current
      @unawaited = Task::Unawaited.new(scheduler)
      @to_stop = Thread::Queue.new
      @lock = SpinLock.new
      @listeners = {}.compare_by_identity # task => listeners of any thread, woken at its end
      @leaving = @forker = @forker_fiber = nil
    end

    # @param name [String]
    # @param block [Proc]
    # @return [Object] the block's value
    def call(name, block)
      @root = Task.new(nil, name, false, block, Task::Context.new(self)) # an earlier exception has nothing to undo
      begin
        register
        @scheduler.spawn(@root) unless @drives
        wait_until { @root.finished? || @leaving }
        raise @leaving if @leaving

        @root.wait
      ensure
        unwind unless @root.finished?
        @scheduler.runs.delete(self)
        @root.report_failure
        @unawaited.finish
      end
    end

    # @return [String]
    def label = "the caller of Gyre.run"

    # This run's fiber waits for the root task, even while it drives.
    # @return [Array<Task>]
    def awaited = [@root]

    # Makes Gyre.run raise `error`, the exception of an `exit`, a signal or a Thread#raise. In a
    # forked child the forking fiber raises it first, even if it waits for the calling task: its
    # block may end the process.
    # @param error [Exception]
    def leave(error)
      @leaving ||= error
      return wake if @forker_fiber.nil? || Fiber.current.equal?(@forker_fiber)

      Task.current?&.forget_waiter(@forker_fiber)
      @scheduler.fiber_interrupt(@forker_fiber, error)
    end

    # @param task [Task]
    def task_finished(task)
      listeners = @lock.synchronize { @listeners.delete(task) } unless @listeners.empty?
      listeners&.each(&:wake) # without the lock, as it may wait for another lock
      @unawaited.parent_finished(task)
      wake if task.equal?(@root)
    end

    # Calls `listener.wake` at the task's end. Any thread may call it.
    def listen(task, listener) = @lock.synchronize { (@listeners[task] ||= []) << listener }

    def unlisten(task, listener)
      @lock.synchronize do
        listeners = @listeners[task] or next
        listeners.delete(listener)
        @listeners.delete(task) if listeners.empty?
      end
    end

    # @return [Integer]
    def listeners_count(task) = @listeners[task] ? @listeners[task].size : 0

    # Called by another thread to stop a task.
    # @param task [Task]
    def stop_later(task)
      @to_stop.push(task)
      wake
    end

    # Called in a forked child, where only the forking fiber continues. Tasks above the forking task
    # end with it, all others at once. Does nothing if the fork was outside of tasks.
    def process_fork
      @forker = @forker_fiber = nil # of a fork of this process's parent
      forker = Task.current? or return
      forker.forget_waiters
      @root.family.each { |task| task.stay_behind unless task.equal?(forker) }
      @to_stop.clear
      @listeners.clear
      @unawaited.process_fork
      @forker = forker
      @forker_fiber = Fiber.current
    end

    # Enters Gyre.run's caller at the end of the forking task. In a forked child the forking fiber
    # is Ruby's root fiber: if it ended, the program would end. It does so if Gyre.run's caller was
    # a scheduled fiber, which the child lacks.
    # @param task [Task] whose block is over
    def forker_ended(task)
      return unless task.equal?(@forker)

      @forker_fiber = nil
      @drives ? @fiber.transfer : (raise @leaving if @leaving)
    end

    private

    # For Gyre.print_hierarchy.
    def register
      @scheduler.runs.push(self)
      Thread.current.thread_variable_set(:gyre_scheduler, @scheduler)
    end

    def wait_until
      if @drives
        @scheduler.run_until do
          start if @root.unstarted?
          stop_those_asked_for || yield
        end
      else
        @scheduler.block(self, nil) until stop_those_asked_for || yield
      end
    end

    # Starts the root once there is a driver; otherwise the first parking task would have to drive.
    def start = (@scheduler.spawn(@root) if @scheduler.loop_running?)

    def stop_those_asked_for
      @to_stop.pop.stop until @to_stop.empty?
    end

    # Ends the wait of the loop or of this run's fiber. Any thread may call it.
    def wake = @drives ? @scheduler.wakeup : @scheduler.unblock(self, @fiber)

    # Stops all tasks and waits for their end, after an exception.
    def unwind
      @root.stop
      begin
        wait_until { @root.finished? }
      rescue SignalException # a second interrupt
        @root.stop_again
        retry
      end
    end
  end
end
