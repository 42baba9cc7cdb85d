# frozen_string_literal: true

# A task: a block that runs in a pooled fiber beside others, with a parent that outlives it. Gyre.run makes the first
# one of a tree and Task#async the others. Works on any Gyre::Scheduler through its public methods only. A task belongs
# to one thread; from other threads only `wait`, `stop` and the questions are allowed.

require "gyre/deadline"
require "gyre/errors"
require "gyre/task/context"
require "gyre/task/questions"
require "gyre/task/inheritance"
require "gyre/task/lifecycle"
require "gyre/task/sight"
require "gyre/task/stopping"
require "gyre/task/timing"
require "gyre/task/tree"
require "gyre/task/waiting"
require "gyre/task/failure"
require "gyre/task/expired"
require "gyre/task/hierarchy"

module Gyre
  # Work that goes on beside other work. A task is over when its block has ended *and* all its children are over: those
  # that it does not need any more, because its block failed or was stopped, it stops; for the others it waits.
  #
  #   body runs ──ends well──► waits for its children ──────────────┐
  #       │                    (stops transient ones at the end)    ├─► finished: :completed, :failed or :stopped
  #       └─raises or stopped─► stops its children, waits for them ─┘
  class Task
    include Questions
    include Inheritance
    include Lifecycle
    include Sight
    include Stopping
    include Timing
    include Tree
    include Waiting

    # The task that runs the calling code.
    # @return [Task]
    # @raise [RuntimeError] outside of any task
    def self.current
      Thread.current[:gyre_task] or raise "no task here: wrap the code in Gyre.run { }"
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

    # Use {#async} or Gyre.run.
    # @api private
    def initialize(run, parent, name, transient, block, context = nil)
      @run = run
      @parent = parent
      @name = name
      @transient = transient
      @block = block
      @context = context
      @status = :running
      @result = @fiber = @waiters = @waiters_elsewhere = @annotation = nil
      @finished = @stopping = false
      plant
      come_into_sight
    end

    # Starts a child. It runs at once, up to its first wait; then the caller goes on.
    #
    # @param name [String, nil] for reports and {#print_hierarchy}
    # @param transient [Boolean] a transient child does not keep its parent waiting: it is stopped when only transient
    #   children are left. It is under none of its parent's deadlines, and its exception is reported at once.
    # @yieldparam task [Task] the child
    # @return [Task] the child; its value or exception comes from {#wait}
    # @raise [Error] when this task is over or belongs to another thread
    def async(name = nil, transient: false, &block)
      raise ArgumentError, "async needs a block" unless block
      raise Error, "#{label} is over: it can have no more children" if @finished
      raise Error, "#{label} belongs to another thread: start its children there" unless here?

      child = Task.new(@run, self, name, transient, block, @context && inheritance(transient))
      adopt(child)
      begin
        @run.scheduler.spawn(child)
      ensure
        child.stop if child.unstarted? # no fiber was to be had
      end
      child
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

    # Waits until all children are over, also those that come meanwhile, and then for the task itself unless it is the
    # calling one.
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

    # Runs the block and raises `exception` when it takes too long: at its present wait, so a block that only computes is
    # not cut off. Inside the block the end of the time cannot be rescued as that exception, but `ensure` runs; timeouts
    # within timeouts are told apart. Children that are started in the block are stopped when the time is over before
    # the block has ended; later it does not concern them (see Gyre.with_deadline).
    #
    # @param seconds [Numeric, nil] nil: no limit. Zero or less: the time is over at the block's first wait.
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

    # Says what the task is doing at the moment, for {#print_hierarchy}.
    # @param text [String, nil]
    # @return [self]
    def annotate(text)
      @annotation = text
      self
    end

    # Prints the task and all below it, one line for each: name, annotation, what it waits for, age, place.
    # @param out [#puts]
    # @param backtrace [Boolean] prints all of where each task is, without Gyre's own part of it
    # @return [nil]
    def print_hierarchy(out = $stdout, backtrace: false)
      hierarchy = Hierarchy.new(@run.scheduler, backtrace: backtrace)
      hierarchy.each_line(self) { |line| out.puts line }
      hierarchy.each_circle_line { |line| out.puts line }
      nil
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

    # @return [Scheduler]
    # @api private
    def scheduler
      @run.scheduler
    end

    private

    def here?
      @run.scheduler.equal?(Fiber.scheduler)
    end
  end
end
