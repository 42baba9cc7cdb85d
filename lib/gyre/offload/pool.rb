# frozen_string_literal: true

# The threads that do blocking work. Asked by Gyre::Offload for each job, and by a waiting fiber
# when its job was not begun in time. It cannot find out whether a job computes, and more threads
# than processors only cost, or waits (a name server that does not answer, a job that itself needs
# the pool), and then those behind it need other threads. So it hesitates:
#
#   threads        a job that finds all of them at work
#   < READY        gets one more at once
#   < LIMIT        gets one more after PATIENCE_S in the queue
#   >= LIMIT       gets one more when for STANDSTILL_S no job at all was begun
#
# The first READY threads stay, and wait for jobs without a limit of time: on Ruby 3.4 the child of
# a fork hangs when another thread is just going into a timed sleep
# (https://github.com/ruby/ruby/pull/13584), and a thread does so just when the fiber whose job it
# did goes on.
require "etc"
require_relative "../sync/spin_lock"

module Gyre
  module Offload
    # Threads, made when they are needed; those beyond the first few end after a while without work.
    class Pool
      READY = [4, Etc.nprocessors].max
      LIMIT = 64
      PATIENCE_S = 0.01
      STANDSTILL_S = 1
      # For how long a thread beyond READY stays without work.
      IDLE_TIMEOUT_S = 5

      def initialize(ready: READY, limit: LIMIT, standstill_s: STANDSTILL_S, idle_timeout_s: IDLE_TIMEOUT_S)
        @ready = ready
        @limit = limit
        @standstill_s = standstill_s
        @idle_timeout_s = idle_timeout_s
        @jobs = []
        begin_without_threads
      end

      # @return [Integer] how many threads there are
      def size
        @threads.size
      end

      # @param job [#run]
      # @raise [ThreadError] when the system gives us not a single thread
      def enqueue(job)
        @lock.synchronize do
          start if @jobs.size >= @idle && @threads.size < @ready
          @jobs.push(job)
          @available.signal
        end
      end

      # @return [Numeric] seconds after which a job that was not begun calls {#relieve}
      def patience_s
        @threads.size < @limit ? PATIENCE_S : @standstill_s
      end

      # A job has waited for its beginning for as long as that.
      def relieve
        @lock.synchronize { start if @jobs.size > @idle && (@threads.size < @limit || stands_still?) }
      end

      # The threads are gone, and what they had begun with them.
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

      # A thread inherits what is masked where it is made, as it is here; jobs are ended by
      # Thread#kill.
      def start
        thread = Thread.new { Thread.handle_interrupt(Object => :immediate) { work } }
        thread.name = "gyre offload"
        @threads.push(thread)
        @begun_at = now
      rescue ThreadError # the system has no more for us
        raise if @threads.empty?
      end

      def stands_still?
        now - @begun_at >= @standstill_s
      end

      def work
        while (job = next_job)
          job.run
          job = nil # nothing of it is kept while idle
        end
      ensure
        @mutex.synchronize { @begun.delete(@threads.delete(Thread.current)) }
      end

      # @return [#run, nil] nil when there was none for long enough
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

      # Until there is one, or until the calling thread has been one too many for long enough.
      def wait_for_job
        spare = false
        while @jobs.empty? && !(spare && spare?)
          spare = spare?
          @available.wait(@mutex, spare ? @idle_timeout_s : nil)
        end
      end

      def spare?
        @threads.size > @ready
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
