# frozen_string_literal: true

# Gyre::Loop::PortableKeyed: the keyed loop in Ruby over Loop::Portable, twin of keyed_loop.c. If
# the thread has a scheduler, uses the scheduler's loop and parks the waiting fiber. Otherwise
# drives a loop of its own.
require_relative "keyed_watch"
require_relative "overrides"
require_relative "portable"

module Gyre
  class Loop
    # Extends loops on the backend select (contract: test/contracts/loop_contract.rb). One thread at
    # a time may use the loop; emit, signal and stop may be called by any.
    module PortableKeyed
      def self.open(loop)
        Overrides.install(loop, self, Loop)
        loop.__send__(:open_portable)
      end

      def each
        raise LocalJumpError, "no block given (yield)" unless block_given?

        inside do
          until @stopped && @events.empty?
            wait
            @signalled = false
            @events.size.times do
              break if @events.empty?

              key = take
              yield key unless key.equal?(NOTHING)
            end
            break if @stopped
          end
          @stopped = false
        end
        self
      end

      def next_event
        inside do
          key = NOTHING
          while key.equal?(NOTHING)
            if @events.empty? && (@stopped || @signalled)
              @signalled = false unless @stopped
              @stopped = false
              key = nil
            else
              wait
              key = take unless @events.empty?
            end
          end
          key
        end
      end

      def watch_io(key, io, second = false, third = false, read: nil, write: second, oneshot: third)
        io = io.to_io
        raise IOError, "watch #{key.inspect}: its io is closed" if io.closed?

        begin_watch(KeyedWatch.new(self, key, io: io, interest: interest(key, read, write), oneshot: oneshot))
      end

      def watch_fd(key, fd, second = false, third = false, read: nil, write: second, oneshot: third)
        io = IO.for_fd(Integer(fd), autoclose: false)
        begin_watch(KeyedWatch.new(self, key, io: io, interest: interest(key, read, write), oneshot: oneshot))
      rescue SystemCallError => error
        raise error.class, "watch #{key.inspect}"
      end

      def watch_timer(key, duration, third = 0, interval: third)
        raise TypeError, "watch #{key.inspect}: no time was given" if duration.nil?
        raise ArgumentError, "time interval must not be negative" if duration < 0 || (interval && interval < 0)

        begin_watch(KeyedWatch.new(self, key, at: Timers.now + duration, interval: interval.to_f))
      end

      def unwatch(key)
        settle
        watch = @watches.delete(key)
        watch&.release
        unsettle
        self
      end

      def watching?(key)
        check_fork
        @watches.key?(key)
      end

      def emit(key)
        if key.equal?(:stop)
          stop
        else
          check_fork
          push(key) unless @closed
        end
        key
      end

      def signal
        check_fork
        @signalled = true
        wake
        self
      end

      def stop
        check_fork
        @stopped = true
        wake
        self
      end

      def close
        return if @closed

        check_fork
        check_thread
        @watches.values.each(&:release)
        @watches.clear
        @events.clear
        @closed = @stopped = true
        wake
        @own&.close
        nil
      end

      def stats
        settle
        stats = (@scheduler || @loop).stats
        unsettle
        stats
      end

      def closed? = @closed

      def backend = PORTABLE

      # --- for KeyedWatch, in the loop's callbacks ---

      # Queues an event. Any thread may call it. `watch.taken` is called when the event is taken.
      def push(key, watch = nil)
        @events.push([key, watch])
        wake(1)
      end

      # Called when a one-shot watch has fired.
      def over(watch) = @watches.delete(watch.key)

      # Called when the watch's io was closed; the next wait raises.
      def failed(watch)
        return unless @watches[watch.key].equal?(watch)

        @watches.delete(watch.key)
        @failures.push(watch)
        wake
      end

      # Returned by {#take} when a helper has nothing to deliver.
      NOTHING = Object.new.freeze
      private_constant :NOTHING

      private

      def open_portable
        @depth = 0
        @pid = Process.pid
        forget
      end

      # Returns nil: the portable engine has no descriptors for helpers.
      def engine_of_helpers; end

      def forget
        @watches = {}
        @events = Thread::Queue.new # without a Mutex: usable in a trap handler
        @failures = []
        @waiters = []
        @closed = @stopped = @signalled = false
        @loop = @scheduler = @thread = nil
      end

      def take
        key, watch = @events.pop(true)
        wake(1) unless @events.empty?
        watch.nil? || watch.taken ? key : NOTHING
      end

      # --- which loop, and in which thread ---

      def settle
        raise "the loop is closed" if @closed

        check_fork
        check_thread
        scheduler = present_scheduler
        return if @loop && scheduler.equal?(@scheduler)

        @watches.each_value(&:detach)
        @scheduler = scheduler
        @thread = scheduler || @depth > 0 ? Portable.thread : nil
        @loop = scheduler ? scheduler.event_loop : (@own ||= Portable.new)
        @watches.values.each { |watch| watch.attach(@loop) }
      end

      # Leaves the scheduler's loop while there are neither watches nor waits.
      def unsettle
        return unless @scheduler && @depth.zero? && @watches.empty?

        @scheduler = @loop = @thread = nil
      end

      def inside
        settle
        @thread = Portable.thread
        @depth += 1
        begin
          yield
        ensure
          @depth -= 1 if @depth > 0
          @thread = nil if @depth.zero? && @scheduler.nil?
          unsettle
        end
      end

      def present_scheduler
        scheduler = Fiber.scheduler
        return unless scheduler && defined?(Scheduler) && scheduler.is_a?(Scheduler) && !scheduler.closed?
        return scheduler if scheduler.is_a?(Scheduler::Portable)

        raise "this loop is portable, and the scheduler of its thread is native: make the loop in that thread"
      end

      def check_thread
        return if @thread.nil? || @thread.equal?(Portable.thread) || (@scheduler&.closed?)

        raise ThreadError, "the loop is used by another thread, #{@thread.inspect}: only emit, signal and stop may be called here"
      end

      # Drops all watches and events in a forked child. A closed loop stays closed.
      def check_fork
        return if @pid == Process.pid

        @pid = Process.pid
        watches = @watches.values
        @depth = 0 unless @thread.equal?(Portable.thread)
        closed = @closed
        forget
        @closed = @stopped = closed
        @own.reopen if @own && !closed
        watches.each(&:release)
      end

      # Asks the kernel even if the queue never empties. Finds closed IOs even if their descriptors
      # were reused.
      def wait
        settle
        @watches.values.each(&:resume)
        raise @failures.shift.failure unless @failures.empty?

        if @scheduler.nil?
          @loop.poll { nothing? }
        elsif nothing?
          park
        else
          @scheduler.yield
        end
      end

      def nothing? = @events.empty? && !@stopped && !@signalled && @failures.empty?

      # If an event has come, unblocks the fiber first, so that its block returns at once.
      def park
        fiber = Fiber.current
        @waiters += [fiber]
        @scheduler.unblock(self, fiber) unless nothing?
        @scheduler.block(self, nil)
      ensure
        @waiters -= [fiber]
      end

      # Any thread and trap handler may call it. `count`: number of waiters to wake. An interrupted
      # waiter passes its wake-up to the next.
      def wake(count = @waiters.size)
        scheduler = @scheduler
        if scheduler
          @waiters.first(count).each { |fiber| scheduler.unblock(self, fiber) }
        elsif @own&.waiting?
          @own.wake
        end
      end

      def interest(key, read, write)
        read = !write if read.nil?
        raise ArgumentError, "watch #{key.inspect} for what? neither read nor write" unless read || write

        (read ? IO::READABLE : 0) | (write ? IO::WRITABLE : 0)
      end

      def begin_watch(watch)
        settle
        raise "Duplicate event key detected, event key must be unique" if @watches.key?(watch.key)

        @watches[watch.key] = watch
        watch.attach(@loop)
        self
      end

      def watch_helper(key, helper, oneshot)
        at = helper.interval && (Timers.now + helper.interval)
        begin_watch(KeyedWatch.new(self, key, io: helper.io, interest: IO::READABLE, oneshot: oneshot, at: at,
                                              interval: helper.interval, helper: helper))
      end
    end
  end
end
