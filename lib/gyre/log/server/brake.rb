# frozen_string_literal: true

# Back-pressure: when too much is in memory, connections that bring messages wait until half of the memory is free. What outputs that stand still
# have in their queues does not count: these have a bound of their own (queues.rb). The hub asks it after each read and lets go when its
# timer comes. It knows neither sockets nor outputs.

module Gyre
  module Log
    # On or off, and what waits for it.
    class Brake
      # How often it is looked at while it is on.
      LOOK_S = 0.01

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

      # @return [Integer] how often it was put on
      attr_reader :count

      # @param loop [Gyre::Loop] gets the key :brake while it is on
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
      def on?
        @on || @held
      end

      # @return [Boolean] whether nothing at all may be read or accepted
      def held?
        @held
      end

      # Something has come.
      #
      # @return [Boolean] whether that was too much; then it should be written
      def press
        return false if @on || !crowded?(@limit)

        @on = true
        @count += 1
        @loop.watch_timer(:brake, LOOK_S, LOOK_S)
        true
      end

      # The key :brake has come.
      #
      # @return [Boolean] whether it was let go
      def look
        return false if crowded?(@limit / 2)

        @loop.unwatch(:brake)
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
      # @return [void]
      def park(peer)
        @parked[peer] = true
      end

      # @param peer [#resume] waits no more
      # @return [void]
      def forget(peer)
        @parked.delete(peer)
      end

      # @return [Integer] how many wait
      def parked
        @parked.size
      end

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
        Brake.resume(parked)
      end
    end
  end
end
