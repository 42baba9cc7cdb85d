# frozen_string_literal: true

# A pooled fiber for one job after another. Made by Scheduler::Portable::Pool.
require_relative "waiter"

module Gyre
  class Scheduler
    module Portable
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
    end
  end
end
