# frozen_string_literal: true

# Blocking work beside the loop: name resolution, waits for processes, slow reads from a disk, long
# computations handed over by Ruby. Called by both engines' schedulers. bench/notes/offload.md has
# costs and benefits.
require_relative "offload/job"
require_relative "offload/pool"

module Gyre
  # Work for a small pool of threads, shared by all loops of the process; each Ractor has its own.
  module Offload
    class << self
      # Runs the block in a thread of the pool while the calling fiber waits. Runs it directly
      # without a scheduler, or in a blocking fiber. Returns or raises the block's result.
      # `abandon`: if an exception ends the wait, true ends the work, false finishes it first (it
      # uses the caller's memory), :seen waits for its end (it takes something that others wait
      # for).
      def call(abandon: true, &work) = run(work, abandon: abandon)

      # Runs a callable in the same way.
      def run(work, abandon: true)
        scheduler = current_scheduler or return work.call

        threads = (self.pool ||= Pool.new)
        job = Job.new(work, scheduler, Fiber.current)
        threads.enqueue(job)
        abandon ? wait(job, threads, abandon == :seen) : wait_uninterrupted(job, threads)
        job.value
      end

      # Starts over in a forked child: the threads stay in the parent.
      def process_fork
        self.pool = nil
      end

      # Starts over in a daemon that replaced this process: the thread's fibers continue, the pool's
      # threads do not. Work not begun gets new threads; waits for other work raise, as its progress
      # is unknown.
      def process_move = pool&.process_move

      private

      def current_scheduler
        Fiber.scheduler unless Fiber.current.blocking?
      end

      # Each Ractor has its own, as threads and locks cannot be shared.
      if defined?(Ractor)
        def pool = Ractor.current[:gyre_offload]

        def pool=(pool)
          Ractor.current[:gyre_offload] = pool
        end
      else
        attr_accessor :pool
      end

      def wait(job, threads, seen)
        job.wait(threads)
      rescue Exception # rubocop:disable Lint/RescueException -- raised again
        job.abandon
        Thread.pass while seen && job.under_way?
        raise
      end

      def wait_uninterrupted(job, threads)
        job.wait(threads)
      rescue Exception => error # rubocop:disable Lint/RescueException -- raised again
        begin
          job.wait(threads)
        rescue Exception # rubocop:disable Lint/RescueException -- the first one counts
          retry
        end
        raise error
      end
    end
  end
end
