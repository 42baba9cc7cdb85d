# frozen_string_literal: true

# A scheduler's workers, busy and idle. Scheduler::Portable::Fibers takes workers, which report
# their jobs' begin and end.

require_relative "waiter"

module Gyre
  class Scheduler
    module Portable
      # A pooled fiber for one job after another.
      class Worker
        STORAGE = Fiber.respond_to?(:[]) # fiber storage came with Ruby 3.2

        attr_reader :fiber
        attr_reader :pooled # whether it stays after its job

        def initialize(pool, options, pooled:)
          @pool = pool
          @pooled = pooled
          @fiber = (pooled ? PooledFiber : Fiber).new(**{ blocking: false }, **options) { live }
          @strand = Strand.of(@fiber)
        end

        def assign(callable, arguments)
          @storage = Fiber.current.storage if STORAGE && @pooled
          @arguments = arguments
          @callable = callable
        end

        def assigned? = !@callable.nil?

        private

        def live
          working = true
          while working
            run
            working = @pool.rest(self)
          end
        end

        def run
          @pool.started(self, @strand)
          callable = @callable
          arguments = @arguments
          @callable = @arguments = nil
          adopt_storage if @storage
          callable.call(*arguments)
        rescue Exception => error # rubocop:disable Lint/RescueException -- reported, or raised by the driver
          @pool.failed(error, @fiber)
        ensure
          @pool.finished(self) # first: exceptions of other threads end the fiber from here on
          callable = arguments = error = nil # rubocop:disable Lint/UselessAssignment -- an idle worker keeps nothing alive
          clean
        end

        # As a new fiber would, takes its creator's fiber storage.
        def adopt_storage
          @storage.each { |key, value| Fiber[key] = value }
          @storage = nil
        end

        def clean
          thread = Thread.current
          thread.keys.each { |key| thread[key] = nil }
          Fiber.current.storage&.each_key { |key| Fiber[key] = nil } if STORAGE
          @strand.reset
        end
      end

      class Pool
        # Finished fibers for reuse.
        IDLE_LIMIT = 1024
        # Idle workers kept for good, and the others' idle time.
        IDLE_KEPT = 16
        TRIM_S = 0.5
        # A pooled fiber has its own storage, not its maker's.
        OPTIONS = (Worker::STORAGE ? { storage: nil } : {}).freeze

        def initialize(fibers, scheduler, loop)
          @fibers = fibers
          @scheduler = scheduler
          @loop = loop
          @busy = {}.compare_by_identity
          @idle = []
          @closed = false
          @least = 0 # least idle count since the timer was armed
        end

        def busy_count = @busy.size

        def idle_count = @idle.size

        def working?(fiber) = @busy.key?(fiber)

        def acquire
          worker = @idle.pop
          worker = @idle.pop until worker.nil? || worker.fiber.usable?
          @least = @idle.size if @idle.size < @least
          worker || Worker.new(self, OPTIONS, pooled: true)
        end

        # Makes a worker for one job with `options` of Fiber.new.
        def once(options) = Worker.new(self, options, pooled: false)

        # True if a timer will free workers.
        def armed? = !@timer.nil?

        # In a forked child keeps only the forking fiber's worker.
        def forget(fiber)
          @idle.clear
          @timer = nil # gone with the parent's loop
          @busy.select! { |busy, _| busy.equal?(fiber) }
        end

        # No jobs follow: the collector gets the idle fibers. They must not refer to a closed
        # scheduler: a later stack at the same address could keep them.
        def close
          @idle.clear
          @closed = true
        end

        # Called when the worker's fiber is entered for a job.
        def started(worker, strand)
          @fibers.started(strand)
          @busy[worker.fiber] = true
        end

        def finished(worker) = @busy.delete(worker.fiber)

        # Called when an exception has left a job.
        def failed(error, fiber)
          case error
          when Stop then nil # was asked to end
          when SystemExit, SignalException then @fibers.fail(error)
          else report(error, fiber)
          end
        end

        # Waits for a job. Returns false if the fiber must end: then Ruby continues in the root
        # fiber or its innermost resumed fiber.
        def rest(worker)
          return true if worker.assigned? # an exception for the thread came before the job had begun
          return false if !worker.pooled || @closed || @idle.size >= IDLE_LIMIT

          @idle.push(worker)
          trim_later unless @timer
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

        def trim_later
          return if @idle.size <= IDLE_KEPT

          @least = @idle.size
          @timer = @loop.timers.after(TRIM_S, -> { trim })
        end

        # Frees workers that were always idle.
        def trim
          @timer.cancel
          @timer = nil
          # Copies, as Array#shift and #drop keep removed elements in memory.
          @idle = @idle.drop(@least - IDLE_KEPT).map(&:itself) if @least > IDLE_KEPT
          trim_later
        end

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
