# frozen_string_literal: true

# Gyre::Watchdog: reports code that blocks the loop. Its thread reads the loop's pulse and prints
# the loop thread's backtrace if the pulse does not change. Started by Gyre.run on request or if
# GYRE_WATCHDOG_MS is set. Hold judges the readings; CPUTime reads the loop thread's CPU time.

require "gyre/scheduler"
require "rbconfig"

module Gyre
  # Watches a loop from its own thread.
  class Watchdog
    # Default seconds that the loop may be held.
    LIMIT_S = 0.1
    # Number of reads of the pulse within the limit.
    LOOKS = 4
    private_constant :LOOKS

    class << self
      # Watches this thread's loop until {#stop} or until the loop is closed.
      # @param limit_s [Numeric] seconds that the loop may be held
      # @param out [#puts] for the watchdog's thread
      # @param scheduler [Scheduler]
      # @return [Watchdog]
      # @raise [ArgumentError, Error]
      def start(limit_s: LIMIT_S, out: $stderr, scheduler: Fiber.scheduler)
        raise ArgumentError, "limit_s must be a positive number, not #{limit_s.inspect}" unless limit_s.is_a?(Numeric) && limit_s.positive?
        raise Error, "a watchdog needs a Gyre::Scheduler on this thread" unless scheduler.is_a?(Scheduler)
        raise Error, "this loop has a watchdog already" if scheduler.watchdog

        new(scheduler, limit_s, out)
      end

      # @param limit_s [Numeric, true, false, nil] nil: GYRE_WATCHDOG_MS
      # @api private
      def guard(scheduler, limit_s)
        limit_s = limit_of_environment if limit_s.nil?
        limit_s = LIMIT_S if limit_s == true
        watchdog = start(limit_s: limit_s, scheduler: scheduler) if limit_s && !scheduler.watchdog
        yield
      ensure
        watchdog&.stop
      end

      private

      def limit_of_environment
        text = ENV["GYRE_WATCHDOG_MS"].to_s
        return if text.empty?

        Float(text).tap { |limit_ms| raise ArgumentError unless limit_ms.positive? } / 1000
      rescue ArgumentError
        raise ArgumentError, "GYRE_WATCHDOG_MS must be a positive number of milliseconds, not #{text.inspect}"
      end
    end

    # @api private
    def initialize(scheduler, limit_s, out)
      @scheduler = scheduler
      @limit_s = limit_s
      @out = out
      @watched = Thread.current
      scheduler.watchdog = self
      wake
    end

    # Ends the watchdog; may be called again.
    # @return [void]
    def stop
      @lock.synchronize do
        @stopped = true
        @condition.signal
      end
      @thread.join
      @scheduler.watchdog = nil if @scheduler.watchdog.equal?(self)
    end

    # Starts the watchdog's thread again in a forked child, which has only the forking thread.
    # @api private
    def process_fork
      @watched = Thread.current
      @scheduler.watchdog = self
      wake
    end

    # Reports tasks that wait for each other while others go on.
    # @param text [String] a line for each
    # @api private
    def deadlock(text)
      return if @deadlock == text

      @deadlock = text
      report("a deadlock: each of these waits for the next", text.lines(chomp: true))
    end

    private

    def wake
      @lock = Thread::Mutex.new
      @condition = Thread::ConditionVariable.new
      @stopped = false
      @hold = Hold.new(@limit_s)
      @cpu_time = CPUTime.new(@watched)
      @thread = Thread.new { watch }
      @thread.name = "gyre watchdog"
    end

    def watch
      look(@scheduler.pulse) until pause || @scheduler.closed?
      look(nil)
    rescue IOError, SystemCallError
      nil # the report cannot be written
    end

    # Waits for the next look; true once stopped.
    def pause
      @lock.synchronize do
        @condition.wait(@lock, @limit_s / LOOKS.to_f) unless @stopped
        @stopped
      end
    end

    def look(pulse)
      event, held_s = @hold.look(pulse, now, @cpu_time.seconds, blocked: @watched.status != "run")
      case event
      when :held then held(held_s)
      when :over then report(format("the loop of %s goes on after %.2f s", loop_name, held_s))
      end
    end

    # Real time, even if the program's clock is virtual.
    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    def held(held_s)
      work = @watched[:gyre_task] || @watched[:gyre_work] # of the running fiber
      frames = @watched.backtrace
      return unless frames

      own = Inspection::Place.without_own(frames)
      holder = work ? work.label : "a fiber"
      kind = (hidden_wait(frames.first.to_s) if @hold.kind == Hold::WAITING) || @hold.kind
      report(format("%s has held the loop of %s for %.2f s, %s", holder, loop_name, held_s, kind), own.empty? ? frames : own)
    end

    # Describes a wait that Ruby shows to no scheduler, with the remedy (docs/blocking.md); nil for
    # others.
    def hidden_wait(frame)
      return "waiting for a Ractor, which stops all tasks: wait in Gyre.blocking { }" if frame.match?(/\A<internal:ractor>|in 'Ractor\b/)
      return unless Scheduler.respond_to?(:blocking?) && Scheduler.blocking?(@watched)

      "waiting in a blocking fiber, which stops all tasks: make the fiber without blocking: true, or run it in Gyre.blocking { }"
    end

    def loop_name = @watched == Thread.main ? "thread main" : "thread #{@watched.name || @watched.inspect}"

    # Writes all lines by one call, so that output of other threads cannot come between.
    def report(line, below = [])
      @out.puts ["gyre watchdog: #{line}", *below.map { |frame| "    #{frame.strip}" }].join("\n")
    end

    # A hold: a time in which the loop neither sleeps nor makes progress. Decides from the caller's
    # readings whether the loop is held. Uses neither thread nor clock.
    class Hold
      # Minimum CPU time as a share of a hold. Below it, other threads or programs kept the loop's
      # thread from running, which is not reported.
      LEAST_SHARE = 0.1
      # Minimum CPU time, as a share of a hold, at which a blocked thread counts as computing.
      COMPUTING_SHARE = 0.5

      # The kind of a hold that does not compute.
      WAITING = "waiting in a call that stops its thread"

      attr_reader :kind # what the holding code does

      def initialize(limit_s)
        @limit_s = limit_s
        @pulse = nil
      end

      # Returns [:held, seconds] at the limit and each time that the hold has doubled, [:over,
      # seconds] at the end of a reported hold, otherwise nil. `pulse` is nil while the loop sleeps.
      def look(pulse, now, cpu_s, blocked:)
        return restart(pulse, now, cpu_s) if pulse.nil? || pulse != @pulse

        held_s = now - @since
        return if held_s < @due_s

        share = (cpu_s - @cpu_s) / held_s.to_f if cpu_s && @cpu_s
        return if share && share < LEAST_SHARE && !blocked

        @kind = blocked && (share.nil? || share < COMPUTING_SHARE) ? WAITING : "computing"
        @due_s *= 2 while @due_s <= held_s
        @reported = true
        [:held, held_s]
      end

      private

      def restart(pulse, now, cpu_s)
        over = [:over, now - @since] if @reported
        @pulse = pulse
        @since = now
        @cpu_s = cpu_s
        @due_s = @limit_s
        @reported = false
        over
      end
    end

    # Reads another thread's CPU time (Linux): Gyre::Watchdog tells from it whether a stuck thread
    # computes or is kept from running. Does not release the GVL, which a computing thread would
    # take for 100 ms.
    class CPUTime
      # On Linux the number of a thread's CPU clock follows from the thread's number
      # (clock_getcpuclockid(3), linux/posix-timers.h).
      LINUX = RbConfig::CONFIG["host_os"].include?("linux")
      SCHEDULER_PER_THREAD = 6
      private_constant :LINUX, :SCHEDULER_PER_THREAD

      def initialize(thread)
        number = thread_number(thread) if LINUX
        @clock = (~number << 3) | SCHEDULER_PER_THREAD if number
      end

      # Returns CPU seconds since the thread began, or nil if unknown.
      def seconds
        Process.clock_gettime(@clock) if @clock
      rescue SystemCallError
        @clock = nil # the thread has ended
      end

      private

      # The main thread's number is the process's. Ruby 3.1 would return the parent's after a fork.
      def thread_number(thread)
        return Process.pid if thread == Thread.main

        thread.native_thread_id if thread.respond_to?(:native_thread_id)
      end
    end
  end
end
