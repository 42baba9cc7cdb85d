# frozen_string_literal: true

# Blocking work beside the loop: name resolution, processes, slow reads, computations that Ruby
# hands over. Called by both schedulers. Costs: bench/notes/offload.md.
require_relative "offload/job"
require_relative "offload/pool"

module Gyre
  # Uses a small pool of threads for all loops of a Ractor.
  module Offload
    class << self
      # Runs the block in a pool's thread while the fiber waits; directly without a scheduler or in
      # a blocking fiber. Returns or raises its result. `abandon`, if an exception ends the wait:
      # true ends the work, false finishes it (it uses the caller's memory), :seen waits for its end
      # (it takes something that others await).
      def call(abandon: true, &work) = run(work, abandon: abandon)

      # The same for a callable.
      def run(work, abandon: true)
        scheduler = current_scheduler or return work.call

        threads = (self.pool ||= Pool.new)
        job = Job.new(work, scheduler, Fiber.current)
        threads.enqueue(job)
        abandon ? wait(job, threads, abandon == :seen) : wait_uninterrupted(job, threads)
        job.value
      end

      # In a forked child, without the threads.
      def process_fork = self.pool = nil

      # In a daemon, without the threads: work not begun gets new ones; waits for other work raise,
      # as its progress is unknown.
      def process_move = pool&.process_move

      private

      def current_scheduler
        Fiber.scheduler unless Fiber.current.blocking?
      end

      # Per Ractor, as threads and locks cannot be shared.
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
