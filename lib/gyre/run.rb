# frozen_string_literal: true

# Gyre.run, the door to structured tasks: takes or makes the thread's scheduler, runs a block as the
# root of a tree of tasks, and leaves when all of them are over. Gyre::Run is one such call; its
# tasks refer to it. It does not run tasks itself: the scheduler does.

require "gyre/errors"
require "gyre/scheduler"
require "gyre/sync/spin_lock"
require "gyre/task"
require "gyre/task/unawaited"
require "gyre/inspection/watchdog"

module Gyre
  # Runs the block as a task and waits until it and its children are over. On a thread without a
  # scheduler a Gyre::Scheduler serves meanwhile; inside of a task the block becomes a child of it.
  #
  # When the block raises, or this call is left by an Interrupt, by `exit` in any task, by
  # Thread#kill, Thread#raise or a timeout around it, the tasks are stopped and their `ensure`
  # blocks run to the end first. A second Interrupt cuts those short.
  #
  # @param name [String] the task's name
  # @param watchdog [Numeric, true, false, nil] for how many seconds the loop may be held before a
  #   Gyre::Watchdog reports it; true takes the watchdog's own limit, nil that of GYRE_WATCHDOG_MS
  #   (milliseconds), if it is set
  # @yieldparam task [Task]
  # @return [Object] the block's value; nil when its task was stopped
  # @raise [Exception] what the block raised
  # @raise [Error] when the thread's scheduler is not Gyre's
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

  # One call of Gyre.run that has a tree of tasks of its own.
  # @api private
  class Run
    include Inspection::Awaited

    # On a thread without a scheduler.
    def self.on_new_scheduler(name, watchdog, block)
      scheduler = Scheduler.new
      Fiber.set_scheduler(scheduler)
      begin
        Watchdog.guard(scheduler, watchdog) { new(scheduler, drives: true).call(name, block) }
      ensure
        Scheduler.leave
      end
    end

    # On a scheduler that is there already: the calling fiber drives it when no other one does or
    # will.
    def self.on_existing(scheduler, name, watchdog, block)
      unless scheduler.is_a?(Scheduler)
        raise Error, "Gyre.run needs a Gyre::Scheduler, but this thread has a #{scheduler.class}"
      end

      drives = Fiber.current.blocking? && !scheduler.loop_running?
      Watchdog.guard(scheduler, watchdog) { new(scheduler, drives: drives).call(name, block) }
    end

    # Inside of a task.
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
    # @return [Fiber] the one that called Gyre.run
    attr_reader :fiber
    # @return [Task]
    attr_reader :root
    # @return [Task::Unawaited]
    attr_reader :unawaited
    # @return [SpinLock] for the waits of other threads for tasks of this one
    attr_reader :lock

    # @param scheduler [Scheduler]
    # @param drives [Boolean] whether this call drives the loop; else it waits while another one
    #   does
    def initialize(scheduler, drives:)
      @scheduler = scheduler
      @drives = drives
      @fiber = Fiber.current
      @unawaited = Task::Unawaited.new(scheduler)
      @to_stop = Thread::Queue.new
      @lock = SpinLock.new
      @leaving = @forker = nil
    end

    # @param name [String]
    # @param block [Proc]
    # @return [Object] the block's value
    def call(name, block)
      @root = Task.new(self, nil, name, false, block) # an exception that comes before has nothing to undo
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
    def label
      "the caller of Gyre.run"
    end

    # What its fiber waits for, also while that one drives the loop.
    # @return [Array<Task>]
    def awaited
      [@root]
    end

    # A task ended by `exit`, a signal's exception or what Thread#raise sent: Gyre.run raises it.
    # @param error [Exception]
    def leave(error)
      @leaving ||= error
      wake
    end

    # @param task [Task]
    def task_finished(task)
      @unawaited.parent_finished(task)
      wake if task.equal?(@root)
    end

    # Stops a task for another thread.
    # @param task [Task]
    def stop_later(task)
      @to_stop.push(task)
      wake
    end

    # In a forked child only the fiber that forked goes on: the other tasks are over, without
    # another line of theirs, and those above the one that forked end with it. A fork in a fiber
    # without a task is not covered.
    def process_fork
      forker = Task.current? or return
      forker.forget_waiters
      @root.family.each { |task| task.stay_behind unless task.equal?(forker) }
      @to_stop.clear
      @unawaited.process_fork
      @forker = forker if @drives
    end

    # In a forked child the fiber that forked is the thread's first one for Ruby, and its end would
    # be the program's.
    # @param task [Task] one whose block is over
    def forker_ended(task)
      @fiber.transfer if task.equal?(@forker)
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

    # Not before a fiber drives the loop: else the first task that parks would have to.
    def start
      @scheduler.spawn(@root) if @scheduler.loop_running?
    end

    # @return [nil]
    def stop_those_asked_for
      @to_stop.pop.stop until @to_stop.empty?
    end

    # Ends the loop's wait, or this fiber's. From any thread.
    def wake
      @drives ? @scheduler.wakeup : @scheduler.unblock(self, @fiber)
    end

    # Gyre.run is being left by an exception: no task stays behind.
    def unwind
      @root.stop
      begin
        wait_until { @root.finished? }
      rescue SignalException # once more, and impatient
        @root.stop_again
        retry
      end
    end
  end
end
