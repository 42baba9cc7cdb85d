# frozen_string_literal: true

# Threads for blocking work. Jobs that compute need no more threads than processors. Jobs that wait
# (for a silent name server, or for the pool) would then block others. The pool cannot tell them
# apart, so it delays further threads:
#
#   threads        a job that finds all of them at work
#   < READY        gets one more at once
#   < LIMIT        gets one more after PATIENCE_S in the queue
#   >= LIMIT       gets one more when for STANDSTILL_S no job at all was begun
#
# The first READY threads stay and wait without a timeout. With a timeout each job would end in a
# timed sleep; on Ruby 3.4 a forked child hangs if another thread enters such a sleep
# (https://github.com/ruby/ruby/pull/13584).
require "etc"
require_relative "priority"
require_relative "../scheduler/job"
require_relative "../sync/spin_lock"

module Gyre
  module Offload
    # Starts threads on demand. Idle threads beyond the first READY end.
    class Pool
      READY = [4, Etc.nprocessors].max
      LIMIT = 64
      PATIENCE_S = 0.01
      STANDSTILL_S = 1
      # Idle seconds after which a thread beyond the first READY ends.
      IDLE_TIMEOUT_S = 5

      def initialize(ready: READY, limit: LIMIT, standstill_s: STANDSTILL_S, idle_timeout_s: IDLE_TIMEOUT_S)
        @ready = ready
        @limit = limit
        @standstill_s = standstill_s
        @idle_timeout_s = idle_timeout_s
        @jobs = []
        begin_without_threads
      end

      def size = @threads.size

      # Raises ThreadError if the system allows no thread.
      def enqueue(job)
        @lock.synchronize do
          start if @jobs.size >= @idle && @threads.size < @ready
          @jobs.push(job)
          @available.signal
        end
      end

      # Seconds in the queue after which a job calls {#relieve}.
      def patience_s = @threads.size < @limit ? PATIENCE_S : @standstill_s

      # Called when a job has waited for patience_s.
      def relieve = @lock.synchronize { start if @jobs.size > @idle && (@threads.size < @limit || stands_still?) }

      # Called in a daemon, which lacks the threads and their work.
      def process_move
        lost = @begun.values.select(&:here?)
        @jobs.select!(&:here?)
        begin_without_threads
        lost.each(&:lost)
      end

      private

      def begin_without_threads
        @mutex = Thread::Mutex.new
        @lock = SpinLock.new(@mutex) # for fibers
        @available = Thread::ConditionVariable.new
        @threads = []
        @begun = {}.compare_by_identity # thread => job
        @idle = 0
        @begun_at = now
      end

      # A thread inherits its maker's interrupt masks. This mask lets Thread#kill end jobs.
      def start
        thread = Thread.new { Thread.handle_interrupt(Object => :immediate) { work } }
        thread.name = "gyre offload"
        thread.priority = PRIORITY
        @threads.push(thread)
        @begun_at = now
      rescue ThreadError # the system has no more threads
        raise if @threads.empty?
      end

      def stands_still? = now - @begun_at >= @standstill_s

      def work
        Gyre::Job.clear # a new thread has the storage of the fiber that made it
        while (job = next_job)
          job.run
          job = nil # keeps nothing of it while idle
        end
      ensure
        @mutex.synchronize { @begun.delete(@threads.delete(Thread.current)) }
      end

      # Returns nil after a long idle time.
      def next_job
        @mutex.synchronize do
          @begun.delete(Thread.current)
          @idle += 1
          begin
            wait_for_job
          ensure
            @idle -= 1
          end
          @begun_at = now
          job = @jobs.shift or return @threads.delete(Thread.current) && nil
          @begun[Thread.current] = job
        end
      end

      # Waits for a job, or until this thread is superfluous.
      def wait_for_job
        spare = false
        while @jobs.empty? && !(spare && spare?)
          spare = spare?
          @available.wait(@mutex, spare ? @idle_timeout_s : nil)
        end
      end

      def spare? = @threads.size > @ready

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
