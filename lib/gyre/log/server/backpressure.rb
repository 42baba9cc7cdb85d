# frozen_string_literal: true

# Stops reading messages when memory reaches a limit, until half of it is free. Leaves out queues of
# stuck outputs (queues.rb). The hub calls `check` after each read, `release` by a timer.

module Gyre
  module Log
    class Backpressure
      CHECK_S = 0.01

      # Resumes all, even if one fails; then raises the first failure.
      def self.resume(waiting)
        failure = nil
        waiting.each do |peer|
          peer.resume
        rescue StandardError => error
          failure ||= error
        end
        raise failure if failure
      end

      attr_reader :count # times backpressure began

      # The block returns the bytes in memory; `stuck` returns how many of them do not count. The
      # loop gets the key :backpressure.
      def initialize(loop, limit, stuck, &bytes)
        @loop, @limit, @stuck, @bytes = loop, limit, stuck, bytes
        @on = @held = false
        @count = 0
        @parked = {}.compare_by_identity
      end

      # True while no connection may send messages.
      def on? = @on || @held

      # True while no socket may be read or accepted.
      def held? = @held

      # Returns true if backpressure begins: then the caller writes memory out.
      def check
        return false if @on || !crowded?(@limit)

        @on = true
        @count += 1
        @loop.watch_timer(:backpressure, CHECK_S, CHECK_S)
        true
      end

      # Returns true if backpressure has ended.
      def release
        return false if crowded?(@limit / 2)

        @loop.unwatch(:backpressure)
        @on = false
        resume_all
        true
      end

      def crowded?(limit = @limit)
        bytes = @bytes.call
        bytes > limit && bytes - @stuck.call > limit
      end

      def park(peer) = @parked[peer] = true

      def forget(peer) = @parked.delete(peer)

      def parked = @parked.size

      # Stops all reads and accepts during the block.
      def hold
        @held = true
        yield
      ensure
        @held = false
        resume_all
      end

      private

      def resume_all
        return if on?

        parked, @parked = @parked.keys, {}.compare_by_identity
        Backpressure.resume(parked)
      end
    end
  end
end
