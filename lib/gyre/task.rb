# frozen_string_literal: true

# A task: a block that runs in a pooled fiber beside others, with a parent that outlives it. Gyre.run makes the first
# one of a tree and Task#async the others. Works on any Gyre::Scheduler through its public methods only. A task belongs
# to one thread; from other threads only `wait`, `stop` and the questions are allowed.

require "gyre/errors"
require "gyre/task/lifecycle"
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
    include Lifecycle
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
    def initialize(run, parent, name, transient, block)
      @run = run
      @parent = parent
      @name = name
      @transient = transient
      @block = block
      @status = :running
      @result = @fiber = @waiters = @waiters_elsewhere = @annotation = nil
      @finished = @stopping = false
      plant
    end

    # Starts a child. It runs at once, up to its first wait; then the caller goes on.
    #
    # @param name [String, nil] for reports and {#print_hierarchy}
    # @param transient [Boolean] a transient child does not keep its parent waiting: it is stopped when only transient
    #   children are left
    # @yieldparam task [Task] the child
    # @return [Task] the child; its value or exception comes from {#wait}
    # @raise [Error] when this task is over or belongs to another thread
    def async(name = nil, transient: false, &block)
      raise ArgumentError, "async needs a block" unless block
      raise Error, "#{label} is over: it can have no more children" if @finished
      raise Error, "#{label} belongs to another thread: start its children there" unless here?

      child = Task.new(@run, self, name, transient, block)
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
    # @return [Object] the block's value; nil when the task was stopped
    # @raise [Exception] what the block raised, the same exception for everybody who waits
    # @raise [Error] when the task waits for itself or for one that cannot end before it
    def wait
      here? ? join : join_from_elsewhere unless @finished
      case @status
      when :completed then @result
      when :failed then raise @result.ask
      end
    end

    # Stops the task and everything below it: each raises {Stop} at its present wait, those below first, once. Its
    # `ensure` blocks run to their end, also when they wait; use {#wait} to know when. A task that is over stays as it is.
    # Stopping oneself, or a task above, raises Stop here.
    #
    # @return [self]
    def stop
      return self if @finished
      return stop_from_elsewhere unless here?

      raise Stop if stop_family

      self
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
    # within timeouts are told apart.
    #
    # @param seconds [Numeric, nil] nil: no limit. Zero or less: the time is over at the block's first wait.
    # @param exception [Class, Exception] what to raise
    # @param message [String, nil] its message; nil takes the exception's own
    # @return [Object] the block's value
    def with_timeout(seconds, exception = TimeoutError, message = nil)
      return yield if seconds.nil?

      scope = Object.new
      before = $! # an exception that is on its way already, when this is called in an ensure
      begin
        @run.scheduler.timeout_after(seconds.negative? ? 0 : seconds, Expired, scope) { yield }
      rescue Expired => expired
        raise unless expired.scope.equal?(scope)

        interrupted = expired.interrupted(before)
        raise interrupted if interrupted

        error = message ? exception.exception(message) : exception.exception
        error.set_backtrace(expired.backtrace) # where it waited
        raise error, cause: nil
      end
    end

    # Says what the task is doing at the moment, for {#print_hierarchy}.
    # @param text [String, nil]
    # @return [self]
    def annotate(text)
      @annotation = text
      self
    end

    # @return [Symbol] :running until the block and all children are over; then :completed, :failed or :stopped
    def status
      @finished ? @status : :running
    end

    # @return [Boolean] whether the task is not over yet
    def alive?
      !@finished
    end

    # @return [Boolean]
    def finished?
      @finished
    end

    # @return [Boolean] whether its parent does not wait for it
    def transient?
      @transient
    end

    # What came of the task, without waiting and without raising.
    # @return [Object, nil] the block's value, or the exception that it raised; nil while running and when stopped
    def result
      return unless @finished

      @status == :failed ? @result.ask : @result
    end

    # Prints the task and all below it, one line for each: name, status, annotation.
    # @param out [#puts]
    # @return [nil]
    def print_hierarchy(out = $stdout)
      Hierarchy.new(self).each_line { |line| out.puts line }
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

    private

    def here?
      @run.scheduler.equal?(Fiber.scheduler)
    end
  end
end
