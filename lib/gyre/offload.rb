# frozen_string_literal: true

# Runs blocking work in threads: name resolution, processes, slow reads, computations that Ruby
# hands over. Called by the schedulers of both engines. bench/notes/offload.md has the costs.
require_relative "offload/job"
require_relative "offload/pool"

module Gyre
  # Uses a small pool of threads for all loops of a Ractor.
  module Offload
    class << self
      # Runs the block in a pool's thread while the fiber waits. Runs it directly if no scheduler
      # is set or the fiber is blocking. Returns the block's value or raises its exception.
      # `abandon` matters if an exception ends the wait. true: kills the work. :seen: also waits for
      # its end, as the work takes something that others await. false: finishes the work first, as
      # it uses the caller's memory.
      def call(abandon: true, &work) = run(work, abandon: abandon)

      # Like {call}, for a callable.
      def run(work, abandon: true)
        scheduler = current_scheduler or return work.call

        threads = (self.pool ||= Pool.new)
        job = Job.new(work, scheduler, Fiber.current)
        threads.enqueue(job)
        abandon ? wait(job, threads, abandon == :seen) : wait_uninterrupted(job, threads)
        job.value
      end

      # Called in a forked child, which lacks the threads.
      def process_fork = self.pool = nil

      # Called in a daemon, which lacks the threads. Work that has not begun gets new threads. A
      # wait for work that has begun raises an error, as its progress is unknown.
      def process_move = pool&.process_move

      private

      def current_scheduler = (Fiber.scheduler unless Fiber.current.blocking?)

      # Each Ractor has its own pool, as threads and locks cannot be shared.
      def pool = Ractor.current[:gyre_offload]

      def pool=(pool)
        Ractor.current[:gyre_offload] = pool
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
