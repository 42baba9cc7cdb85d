# frozen_string_literal: true

# Something to be found out in another fiber, which is entered for it and goes back to its own wait.
# Made by Scheduler::Portable::Fibers#ask.

module Gyre
  class Scheduler
    module Portable
      # One question and its answer.
      class Question
        # @return [Fiber]
        attr_reader :asker

        def initialize(asker, block)
          @asker = asker
          @block = block
        end

        # What the block raises (an Interrupt, perhaps) is raised in the fiber that asks.
        def answer
          @answer = @block.call
        rescue Exception => error # rubocop:disable Lint/RescueException -- raised again by `value`
          @error = error
        end

        # @return [Object, nil] nil when it was not answered
        def value
          raise @error if @error

          @answer
        end
      end
    end
  end
end
