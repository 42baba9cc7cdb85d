# frozen_string_literal: true

# Blocking work beside the loop: name resolution, waiting for processes, long computations that Ruby itself hands over. Called
# by the schedulers of both engines. The threads have no scheduler and never touch a loop except by `unblock`.

module Gyre
  # A small pool of threads, shared by all loops of the process. Threads are made when all others are at work, and end
  # after a while without any.
  module Offload
    # How many threads there are at most; what comes then waits for one.
    THREADS_LIMIT = 64
    # For how long a thread without work stays.
    IDLE_TIMEOUT_S = 5

    # One piece of work on its way through the pool.
    class Job
      def initialize(work, scheduler, fiber)
        @work = work
        @scheduler = scheduler
        @fiber = fiber
        @lock = Thread::Mutex.new
      end

      # In the pool's thread.
      def run
        @lock.synchronize { @abandoned ? return : @thread = Thread.current }
        @value = @work.call
      rescue Exception => error # rubocop:disable Lint/RescueException -- raised again where the value is wanted
        @error = error
      ensure
        @lock.synchronize { @thread = nil }
        @done = true
        @scheduler.unblock(self, @fiber) unless @abandoned
      end

      # In the fiber: parks until the work is done.
      def wait
        @scheduler.block(self, nil) until @done
      end

      # @return what the work gave, or raises what it raised
      def value
        raise @error if @error

        @value
      end

      # Nobody wants it any more: it does not start if it has not, and its thread ends if it has.
      def abandon
        @lock.synchronize do
          @abandoned = true
          @thread&.kill
        end
      end
    end

    @mutex = Thread::Mutex.new
    @available = Thread::ConditionVariable.new
    @jobs = []
    @threads = []
    @idle = 0

    class << self
      # Runs the block in a thread of the pool while the calling fiber waits. Without a scheduler, or in a blocking
      # fiber, it just runs.
      # @param abandon [Boolean] when an exception ends the wait: true ends the work too, false finishes the work first
      #   (for work that uses memory of the caller)
      # @return the block's value
      # @raise what the block raises
      def call(abandon: true, &work)
        scheduler = current_scheduler or return work.call

        job = Job.new(work, scheduler, Fiber.current)
        enqueue(job)
        abandon ? wait(job) : wait_uninterrupted(job)
        job.value
      end

      # In a forked child: the threads exist in the parent only.
      def process_fork
        @mutex = Thread::Mutex.new
        @available = Thread::ConditionVariable.new
        @jobs = []
        @threads = []
        @idle = 0
      end

      private

      def current_scheduler
        Fiber.scheduler unless Fiber.current.blocking?
      end

      def wait(job)
        job.wait
      rescue Exception # rubocop:disable Lint/RescueException -- raised again
        job.abandon
        raise
      end

      def wait_uninterrupted(job)
        job.wait
      rescue Exception => error # rubocop:disable Lint/RescueException -- raised again
        begin
          job.wait
        rescue Exception # rubocop:disable Lint/RescueException -- the first one is the one that counts
          retry
        end
        raise error
      end

      def enqueue(job)
        @mutex.synchronize do
          @jobs.push(job)
          if @jobs.size > @idle && @threads.size < THREADS_LIMIT
            @threads.push(Thread.new { work }.tap { |thread| thread.name = "gyre offload" })
          else
            @available.signal
          end
        end
      end

      def work
        while (job = next_job)
          job.run
          job = nil # nothing of it is kept while idle
        end
      ensure
        @mutex.synchronize { @threads.delete(Thread.current) }
      end

      def next_job
        @mutex.synchronize do
          @idle += 1
          begin
            @available.wait(@mutex, IDLE_TIMEOUT_S) if @jobs.empty?
          ensure
            @idle -= 1
          end
          @jobs.shift
        end
      end
    end
  end
end
