# frozen_string_literal: true

# Blocking work beside the loop: name resolution, waiting for processes, reads that have to wait for
# a disk, long computations that Ruby itself hands over. Called by the schedulers of both engines.
# What it costs, and what it is worth: bench/notes/offload.md.
require_relative "offload/job"
require_relative "offload/pool"

module Gyre
  # Work for the threads of a small pool, shared by all loops of the process; each Ractor has its
  # own.
  module Offload
    class << self
      # Runs the block in a thread of the pool while the calling fiber waits. Without a scheduler,
      # or in a blocking fiber, it just runs.
      # @param abandon [Boolean, :seen] when an exception ends the wait: true ends the work too,
      #   false finishes the work first (for work that uses memory of the caller), :seen ends it and
      #   sees it ended (for work that takes what others wait for)
      # @return the block's value
      # @raise what the block raises
      def call(abandon: true, &work)
        run(work, abandon: abandon)
      end

      # The same for anything that can be called.
      # @param work [#call]
      def run(work, abandon: true)
        scheduler = current_scheduler or return work.call

        threads = (self.pool ||= Pool.new)
        job = Job.new(work, scheduler, Fiber.current)
        threads.enqueue(job)
        abandon ? wait(job, threads, abandon == :seen) : wait_uninterrupted(job, threads)
        job.value
      end

      # In a forked child: the threads exist in the parent only.
      def process_fork
        self.pool = nil
      end

      # In a daemon, which took the place of this process: the thread's fibers go on there, the
      # pool's threads do not. Work that was not begun gets new ones; how far the rest came is
      # unknown, so a wait for that raises.
      def process_move
        pool&.process_move
      end

      private

      def current_scheduler
        Fiber.scheduler unless Fiber.current.blocking?
      end

      # One for each Ractor: they can share neither threads nor locks.
      if defined?(Ractor)
        def pool
          Ractor.current[:gyre_offload]
        end

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
        rescue Exception # rubocop:disable Lint/RescueException -- the first one is the one that counts
          retry
        end
        raise error
      end
    end
  end
end
