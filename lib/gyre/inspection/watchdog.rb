# frozen_string_literal: true

# Gyre::Watchdog: reports code that blocks the loop. A thread reads the loop's pulse; if it stands
# still, prints the loop thread's backtrace. Started by Gyre.run on request or with
# GYRE_WATCHDOG_MS. watchdog/hold.rb defines a hold.

require "gyre/scheduler"
require "rbconfig"

module Gyre
  # Watches a loop from its own thread.
  class Watchdog
    # Default limit in seconds.
    LIMIT_S = 0.1
    # Number of reads of the pulse within the limit.
    LOOKS = 4
    private_constant :LOOKS

    class << self
      # Watches this thread's loop until {#stop} or its end.
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

      # For Gyre.run.
      # @param limit_s [Numeric, true, false, nil] nil: as GYRE_WATCHDOG_MS
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

    # Ends it; may be called again.
    # @return [void]
    def stop
      @lock.synchronize do
        @stopped = true
        @condition.signal
      end
      @thread.join
      @scheduler.watchdog = nil if @scheduler.watchdog.equal?(self)
    end

    # A forked child lacks the loop's threads.
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
      nil # the report has lost its reader
    end

    # True at the end.
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

    # Real time, even under a virtual clock.
    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    def held(held_s)
      work = @watched[:gyre_task] || @watched[:gyre_work] # of the running fiber
      frames = @watched.backtrace
      return unless frames

      own = Inspection::Place.without_own(frames)
      holder = work ? work.label : "a fiber"
      report(format("%s has held the loop of %s for %.2f s, %s", holder, loop_name, held_s, @hold.kind), own.empty? ? frames : own)
    end

    def loop_name = @watched == Thread.main ? "thread main" : "thread #{@watched.name || @watched.inspect}"

    # Writes one piece, against mixed lines.
    def report(line, below = [])
      @out.puts ["gyre watchdog: #{line}", *below.map { |frame| "    #{frame.strip}" }].join("\n")
    end

    # Decides from readings whether a loop is held. Uses neither thread nor clock.
    # A time in which the loop neither sleeps nor makes progress.
    class Hold
      # Below this share of the time another thread or the machine kept the thread from computing.
      LEAST_SHARE = 0.1
      # From this share on computing is the cause.
      COMPUTING_SHARE = 0.5

      attr_reader :kind # what the code that holds the loop does

      def initialize(limit_s)
        @limit_s = limit_s
        @pulse = nil
      end

      # Returns :held with seconds at the limit and each doubling, then :over; otherwise nil.
      # `pulse` is nil during sleep.
      def look(pulse, now, cpu_s, blocked:)
        return restart(pulse, now, cpu_s) if pulse.nil? || pulse != @pulse

        held_s = now - @since
        return if held_s < @due_s

        share = (cpu_s - @cpu_s) / held_s.to_f if cpu_s && @cpu_s
        return if share && share < LEAST_SHARE && !blocked

        @kind = blocked && (share.nil? || share < COMPUTING_SHARE) ? "waiting in a call that stops its thread" : "computing"
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

    # Another thread's processor time (Linux): tells Gyre::Watchdog whether a stuck thread computes
    # or is kept from running. Keeps the GVL, or a computing thread would have it for 100 ms.
    class CPUTime
      # For the number of a thread's CPU clock (clock_getcpuclockid(3), linux/posix-timers.h).
      LINUX = RbConfig::CONFIG["host_os"].include?("linux")
      SCHEDULER_PER_THREAD = 6
      private_constant :LINUX, :SCHEDULER_PER_THREAD

      def initialize(thread)
        number = thread_number(thread) if LINUX
        @clock = (~number << 3) | SCHEDULER_PER_THREAD if number
      end

      # Returns seconds since the thread began, or nil.
      def seconds
        Process.clock_gettime(@clock) if @clock
      rescue SystemCallError
        @clock = nil # the thread has ended
      end

      private

      # The process's number for the main thread: Ruby 3.1 returns the parent's after a fork.
      def thread_number(thread)
        return Process.pid if thread == Thread.main

        thread.native_thread_id if thread.respond_to?(:native_thread_id)
      end
    end
  end
end
