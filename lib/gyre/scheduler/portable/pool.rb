# frozen_string_literal: true

# The workers of one scheduler: those with a job and those that wait for one. Asked by
# Scheduler::Portable::Fibers for a worker, and by each worker when it begins and ends a job.
require_relative "worker"

module Gyre
  class Scheduler
    module Portable
      # Fibers for use and reuse.
      class Pool
        # How many finished fibers are kept.
        IDLE_LIMIT = 1024
        # How many of them however long they have nothing to do, and how long that is for the
        # others.
        IDLE_KEPT = 16
        TRIM_S = 0.5
        # A pooled fiber must not have the storage of the fiber that made it.
        OPTIONS = (Worker::STORAGE ? { storage: nil } : {}).freeze

        # @param fibers [Fibers]
        # @param scheduler [Portable] reports errors
        def initialize(fibers, scheduler)
          @fibers = fibers
          @scheduler = scheduler
          @busy = {}.compare_by_identity
          @idle = []
          @closed = false
          @least = 0 # idle ones since the last trim
          @trimmed_at = Loop::Timers.now
        end

        # @return [Integer] how many jobs run
        def busy_count
          @busy.size
        end

        # @return [Integer] how many fibers wait for a job
        def idle_count
          @idle.size
        end

        # @param fiber [Fiber]
        # @return [Boolean] whether it has a job
        def working?(fiber)
          @busy.key?(fiber)
        end

        # @return [Worker] a pooled one
        def acquire
          worker = @idle.pop
          worker = @idle.pop until worker.nil? || worker.fiber.usable?
          @least = @idle.size if @idle.size < @least
          worker || Worker.new(self, OPTIONS, pooled: true)
        end

        # @param options [Hash] for Fiber.new
        # @return [Worker] for one job
        def once(options)
          Worker.new(self, options, pooled: false)
        end

        # Called once a turn: now and then leaves those to the collector that have been idle all the
        # time.
        def trim
          return if @idle.size <= IDLE_KEPT || (now = Loop::Timers.now) < @trimmed_at + TRIM_S

          @trimmed_at = now
          @idle.shift(@least - IDLE_KEPT) if @least > IDLE_KEPT
          @least = @idle.size
        end

        # In a forked child: what the others hold is the parent's.
        # @param fiber [Fiber, nil] the one that forked
        def forget(fiber)
          @idle.clear
          @least = 0
          @busy.select! { |busy, _| busy.equal?(fiber) }
        end

        # No job comes any more: the idle fibers are left to the collector. Those of a closed
        # scheduler must not hang on it, for the stack of a later fiber may be where its own was,
        # and keep it: so a program that runs one after the other would collect none.
        def close
          @idle.clear
          @least = 0
          @closed = true
        end

        # The fiber of a worker has been entered for a job.
        def started(worker, strand)
          @fibers.started(strand)
          @busy[worker.fiber] = true
        end

        def finished(worker)
          @busy.delete(worker.fiber)
        end

        # A job let an exception out.
        def failed(error, fiber)
          case error
          when Stop then nil # that it ends was asked for
          when SystemExit, SignalException then @fibers.fail(error)
          else report(error, fiber)
          end
        end

        # Leaves the fiber of a worker until it has a job again.
        # @return [Boolean] false when the fiber shall end: then Ruby goes on in the thread's root
        #   fiber, or in the innermost one that it resumes, which is parked, or drives
        def rest(worker)
          return true if worker.assigned? # an exception for the thread came before the job had begun
          return false if !worker.pooled || @closed || @idle.size >= IDLE_LIMIT

          @idle.push(worker)
          begin
            nil until worker.assigned? || !@fibers.depart(worker.fiber)
          rescue SystemExit, SignalException => error
            @fibers.fail(error)
          rescue Exception # rubocop:disable Lint/RescueException -- meant for the job that has ended: too late
            retry unless worker.assigned?
          end
          worker.assigned?
        end

        private

        def report(error, fiber)
          @scheduler.fiber_failed(error, fiber)
        rescue SystemExit, SignalException => broken
          @fibers.fail(broken)
        rescue Exception # rubocop:disable Lint/RescueException -- $stderr is closed, for example: the report has no reader
          nil
        end
      end
    end
  end
end
