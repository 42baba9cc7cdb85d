# frozen_string_literal: true

# Deadlines of a block and its tasks, set by Gyre.with_deadline and Task#with_timeout. A task's
# context has its innermost deadline (Task::Context); each deadline has the next outer deadline. The
# scheduler raises Task::Expired in the block. A deadline converts its own Expired to the caller's
# error and lets others pass.

require "gyre/clock"
require "gyre/errors"
require "gyre/task/expired"

module Gyre
  # Limits the time of the block and of all tasks started in it. The nearest of several deadlines
  # counts. When the time is over, stops those tasks and raises a {TimeoutError} with the deadline's
  # name at the block's current wait. Tasks that outlive the block keep the deadline. If they are
  # late, they fail with the same error.
  # @param seconds [Numeric, nil] from now; nil, Float::INFINITY: no limit; 0: at the first wait
  # @param at [Numeric, nil] end of the time by {Clock.now}, instead of seconds
  # @param name [String, nil] for the error
  # @yieldparam deadline [Deadline, nil]
  # @return [Object] the block's value
  # @raise [TimeoutError]
  # @raise [RuntimeError] outside of tasks
  def self.with_deadline(seconds = nil, at: nil, name: nil, &block)
    raise ArgumentError, "with_deadline needs a block" unless block
    raise ArgumentError, "either seconds or at:, not both" if seconds && at

    seconds = at - Clock.now if at
    task = Task.current
    return yield if seconds.nil? || seconds == Float::INFINITY

    Deadline.new(seconds, block, name: name, lasting: true).hold(task.scheduler) { |deadline| TimeoutError.new(nil, deadline) }
  end

  # @return [Deadline, nil] the calling task's nearest deadline
  def self.deadline = Task.current?&.deadline

  # A time limit of a task.
  class Deadline
    # @return [String, nil]
    attr_reader :name
    # @return [Numeric] as given
    attr_reader :seconds
    # @return [Float] its end, by {Clock.now}
    attr_reader :at
    # @return [Float] its start
    # @api private
    attr_reader :set_at
    # @return [Deadline, nil] the next outer deadline
    # @api private
    attr_reader :outer

    # Use Gyre.with_deadline or {Task#with_timeout}.
    # @api private
    # @param lasting [Boolean] whether tasks keep the deadline after the block
    def initialize(seconds, block, name: nil, lasting: false)
      raise ArgumentError, "seconds must be a number, not #{seconds.inspect}" if !seconds.is_a?(Numeric) || seconds != seconds # rubocop:disable Lint/BinaryOperatorWithIdenticalOperands -- NaN

      @seconds = seconds
      @block = block
      @name = name
      @lasting = lasting
      @set_at = Clock.now
      @at = @set_at + seconds
      @passed = @over = @raised = false
      @task = @outer = nil
    end

    # @return [Float] seconds left, or 0
    def remaining = [@at - Clock.now, 0.0].max

    # @return [Boolean]
    def passed? = @passed || Clock.now >= @at

    # @return [String, nil] its block's file and line
    def place = @block.source_location&.join(":")

    # @return [String] such as: deadline "fetch" of 2 s, set at app.rb:12
    def to_s
      text = "deadline#{%( "#{@name}") if @name} of #{seconds.is_a?(Integer) ? seconds : seconds.to_f.round(3)} s"
      place ? "#{text}, set at #{place}" : text
    end

    # @return [String]
    def inspect = "#<#{self.class} #{to_s.delete_prefix("deadline ")}, #{remaining.round(3)} s left>"

    # Runs the block within the time limit.
    # @api private
    # @param scheduler [Scheduler]
    # @yieldparam deadline [Deadline] self, once the time is over
    # @yieldreturn [Exception] to raise then
    def hold(scheduler)
      before = $! # in an ensure: the exception that already propagates
      enter
      begin
        scheduler.timeout_after(@seconds.negative? ? 0 : @seconds, Task::Expired, self) { @block.lambda? ? @block.call : @block.call(self) }
      rescue Task::Expired => expired
        raise unless expired.deadline.equal?(self)

        @raised = true
        interrupted = expired.interrupted(before)
        raise interrupted if interrupted

        error = yield(self)
        error.set_backtrace(expired.backtrace) # of the block's wait
        raise error, cause: nil
      ensure
        leave
      end
    end

    # Called on the loop when the time is over, before the scheduler raises in the block's fiber.
    # Must not wait.
    # @api private
    def expire
      @passed = true
      @task&.stop_those_under(self)
    end

    # True if the deadline may still stop tasks.
    # @api private
    def binding? = !@passed && (!@over || @lasting)

    # True if the block has ended.
    # @api private
    def over? = @over

    # True if the block has ended and the caller got no error from this deadline.
    # @api private
    def unheard? = @over && !@raised

    # @api private
    # @param task [Task]
    # @return [Boolean] whether the deadline has passed while this task runs its block
    def raising_in?(task) = @passed && !@over && @task.equal?(task)

    private

    def enter
      @task = Task.current? or return
      @context = @task.context
      @outer = @context.deadline
      @task.context = @context.with_deadline(self)
    end

    def leave
      @over = true
      return unless @task

      now = @task.context # the block may have set values
      @task.context = now.values.equal?(@context.values) ? @context : now.with_deadline(@outer)
      linger if @lasting && !@passed
    end

    # Waits in a task for the block's remaining tasks, and stops them when the time is over.
    def linger
      late = @task.children_under(self)
      return if late.empty?

      @task.async("deadline", transient: true) do |watch|
        watch.annotate(to_s)
        late.all? { |child| child.finished? || child.join_until(@at) } || expire
      end
    end
  end
end
