# frozen_string_literal: true

# EM.spawn: a block that runs once for each message, in a later tick, with the process as self.

module Gyre
  module EventMachine
    # A spawned block returns it in order to continue with another block.
    Yielded = Struct.new(:block, :notify)
    private_constant :Yielded

    # @return [SpawnedProcess] runs the block for each message
    def self.spawn(&block) = SpawnedProcess.new.tap { |process| process.set_receiver(block) }

    # The last call of a spawned block: from then on messages run the block given here.
    def self.yield(&block) = Yielded.new(block, false)

    # The last call of a spawned block: the block given here runs in a later tick, without a
    # message.
    def self.yield_and_notify(&block) = Yielded.new(block, true)

    # A block and its messages.
    class SpawnedProcess
      # Runs the block in a later tick.
      #
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
