# frozen_string_literal: true

# What has Rails reload code only while no request runs. Its own lock counts threads, and requests
# of a Gyre server share one: a request could unload classes under another. Isolation puts this in
# its place. It has the methods of ActiveSupport::Dependencies::Interlock and loads nothing of
# Rails.

module Gyre
  module Web
    # Many may run, one may unload. A request that waits to unload has given its own share back, so
    # several of them take turns.
    class Interlock
      # Fibers that a request makes are a part of it; before Ruby 3.2 each counts by itself.
      KEY = :gyre_interlock
      STORAGE = Fiber.respond_to?(:[])
      private_constant :KEY, :STORAGE

      def initialize
        @lock = Thread::Mutex.new
        @changed = Thread::ConditionVariable.new
        @running = {} # a fiber => how often
        @unloading = nil # the fiber that may unload
        @depth = 0
        @waiting = 0 # for that
      end

      # Waits while classes are unloaded.
      #
      # @return [void]
      def start_running
        @lock.synchronize do
          key = self.key
          @changed.wait(@lock) while @unloading && @unloading != key && !@running.key?(key)
          @running[key] = @running.fetch(key, 0) + 1
          Fiber[KEY] = key if STORAGE
        end
      end

      # @return [void]
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

      # @return [Object] what the block returns
      def running
        start_running
        begin
          yield
        ensure
          done_running
        end
      end

      # Waits until no one else runs.
      #
      # @return [void]
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

      # Others that wait to unload come first.
      #
      # @return [void]
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

      # @return [Object] what the block returns
      def unloading
        start_unloading
        begin
          yield
        ensure
          done_unloading
        end
      end

      # Nothing waits for loading.
      #
      # @return [Object] what the block returns
      def loading
        yield if block_given?
      end
      alias permit_concurrent_loads loading

      # For ActionDispatch::DebugLocks, which shows threads; there are none to show.
      #
      # @yieldparam state [Hash] empty
      # @return [Object] what the block returns
      def raw_state
        yield({})
      end

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
