# frozen_string_literal: true

# A block for another fiber to run when entered, before it waits again. Made by
# Scheduler::Portable::Fibers#ask.

module Gyre
  class Scheduler
    module Portable
      class Question
        attr_reader :asker

        def initialize(asker, block)
          @asker = asker
          @block = block
        end

        # The block's exception (such as Interrupt) is raised in the asking fiber.
        def answer
          @answer = @block.call
        rescue Exception => error # rubocop:disable Lint/RescueException -- raised again by `value`
          @error = error
        end

        # Returns nil without an answer.
        def value
          raise @error if @error

          @answer
        end
      end
    end
  end
end
