# frozen_string_literal: true

# EM.spawn: a block runs for each message, in a later tick, with the process as self.

module Gyre
  module EventMachine
    # Returned by a spawned block, to continue with another block.
    Yielded = Struct.new(:block, :notify)
    private_constant :Yielded

    # @return [SpawnedProcess]
    def self.spawn(&block) = SpawnedProcess.new.tap { |process| process.set_receiver(block) }

    # Called at a spawned block's end: later messages run the given block.
    def self.yield(&block) = Yielded.new(block, false)

    # Called at a spawned block's end: the given block runs in a later tick, without a message.
    def self.yield_and_notify(&block) = Yielded.new(block, true)

    # A block and its messages.
    class SpawnedProcess
      # Runs the block in a later tick.
      # @param args [Array] the block's arguments
      def notify(*args)
        EventMachine.next_tick do
          outcome = instance_exec(*args, &@receiver)
          if outcome.is_a?(Yielded)
            set_receiver(outcome.block)
            notify if outcome.notify
          end
        end
      end
      alias resume notify
      alias run notify

      # @param block [Proc]
      def set_receiver(block)
        @receiver = block
      end
    end
  end
end
