# frozen_string_literal: true

# When too much is in memory, connections that bring messages wait until half of the memory is free.
# What outputs that stand still have in their queues does not count: these have a bound of their own
# (queues.rb). The hub calls `check` after each read and `release` when the timer fires. Without
# sockets and outputs.

module Gyre
  module Log
    # On or off, and what waits for it.
    class Backpressure
      # Between two checks while it is on.
      CHECK_S = 0.01

      # Each gets its turn, also when one fails; the first failure is raised then.
      #
      # @param waiting [Array<#resume>]
      # @return [void]
      def self.resume(waiting)
        failure = nil
        waiting.each do |peer|
          peer.resume
        rescue StandardError => error
          failure ||= error
        end
        raise failure if failure
      end

      # @return [Integer] how often it began
      attr_reader :count

      # @param loop [Gyre::Loop] gets the key :backpressure while it is on
      # @param limit [Integer] bytes
      # @param stuck [#call] bytes in memory that do not count
      # @yieldreturn [Integer] bytes in memory
      def initialize(loop, limit, stuck, &bytes)
        @loop, @limit, @stuck, @bytes = loop, limit, stuck, bytes
        @on = @held = false
        @count = 0
        @parked = {}.compare_by_identity
      end

      # @return [Boolean] whether no connection may bring messages
      def on? = @on || @held

      # @return [Boolean] whether nothing at all may be read or accepted
      def held? = @held

      # Bytes have come.
      #
      # @return [Boolean] whether it begins; then they should be written
      def check
        return false if @on || !crowded?(@limit)

        @on = true
        @count += 1
        @loop.watch_timer(:backpressure, CHECK_S, CHECK_S)
        true
      end

      # The timer has fired.
      #
      # @return [Boolean] whether it has ended
      def release
        return false if crowded?(@limit / 2)

        @loop.unwatch(:backpressure)
        @on = false
        resume_all
        true
      end

      # @return [Boolean]
      def crowded?(limit = @limit)
        bytes = @bytes.call
        bytes > limit && bytes - @stuck.call > limit
      end

      # @param peer [#resume] waits
      def park(peer)
        @parked[peer] = true
      end

      # @param peer [#resume] waits no more
      def forget(peer) = @parked.delete(peer)

      # @return [Integer] how many wait
      def parked = @parked.size

      # Nothing at all may be read or accepted during the block.
      #
      # @return the block's value
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
