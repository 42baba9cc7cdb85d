# frozen_string_literal: true

# Lets Rails reload code only while no request runs. Counts fibers, in place of
# ActiveSupport::Dependencies::Interlock, which counts threads: here requests share a thread.
# Installed by Isolation. Loads no part of Rails.

module Gyre
  module Web
    # Either many requests run, or one unloads. A request that waits to unload does not count as
    # running, so that several can take turns.
    class Interlock
      # Key in fiber storage, which a request's fibers inherit, so that they count as one. Before
      # Ruby 3.2, which has no fiber storage, each fiber counts alone.
      KEY = :gyre_interlock
      STORAGE = Fiber.respond_to?(:[])

      def initialize
        @lock = Thread::Mutex.new
        @changed = Thread::ConditionVariable.new
        @running = {} # a fiber => count
        @unloading = nil # the unloading fiber
        @depth = 0
        @waiting = 0 # fibers that wait to unload
      end

      # Waits while another request unloads classes.
      def start_running
        @lock.synchronize do
          key = self.key
          @changed.wait(@lock) while @unloading && @unloading != key && !@running.key?(key)
          @running[key] = @running.fetch(key, 0) + 1
          Fiber[KEY] = key if STORAGE
        end
      end

      def done_running
        @lock.synchronize do
          key = self.key
          count = @running.fetch(key, 0) - 1
          next @running[key] = count if count.positive?

          @running.delete(key)
          Fiber[KEY] = nil if STORAGE
          @changed.broadcast
        end
      end

      def running
        start_running
        begin
          yield
        ensure
          done_running
        end
      end

      # Waits until no other request runs.
      def start_unloading
        @lock.synchronize do
          key = self.key
          next @depth += 1 if @unloading == key

          share_given_back(key) do
            @waiting += 1
            @changed.broadcast
            @changed.wait(@lock) while @unloading || !@running.empty?
            @unloading = key
            @depth = 1
          ensure
            @waiting -= 1
          end
        end
      end

      # Returns after all requests that wait to unload have unloaded.
      def done_unloading
        @lock.synchronize do
          key = self.key
          raise ThreadError, "this fiber is not unloading" unless @unloading == key
          next unless (@depth -= 1).zero?

          @unloading = nil
          share_given_back(key) do
            @changed.broadcast
            @changed.wait(@lock) while @unloading || @waiting.positive?
          end
          @changed.broadcast
        end
      end

      def unloading
        start_unloading
        begin
          yield
        ensure
          done_unloading
        end
      end

      # Loading never waits.
      def loading
        yield if block_given?
      end
      alias permit_concurrent_loads loading

      # Yields an empty Hash: ActionDispatch::DebugLocks then lists no threads.
      def raw_state = yield({})

      private

      def key
        inherited = Fiber[KEY] if STORAGE
        inherited && (@running.key?(inherited) || @unloading == inherited) ? inherited : Fiber.current
      end

      def share_given_back(key)
        share = @running.delete(key)
        yield
      ensure
        @running[key] = share if share
      end
    end
  end
end
