# frozen_string_literal: true

# Ensures that a signal is handled although the app computes without end and its loop does not run.
# Gyre::Web::Server starts a watch with each signal; a thread sends the loop a message, and cancels
# what the loop's thread computes if the message is not taken. A loop that runs is never touched.

require "gyre/clock"
require "gyre/errors"

module Gyre
  module Web
    # The watches over one server.
    class Guard
      # How long the loop may take for an answer.
      ANSWER_S = 1.0
      private_constant :ANSWER_S

      # @param control [ControlPipe] with the message :hello
      # @param answer_s [Numeric] seconds that the loop has for an answer
      def initialize(control, answer_s: ANSWER_S)
        @control = control
        @answer_s = answer_s
        @received = 0
        @threads = []
      end

      # From the loop: a message has been taken out of the pipe.
      #
      # @return [void]
      def received = @received += 1

      # Checks later whether the loop takes messages. May be called in a signal handler.
      #
      # @param thread [Thread] the loop's
      # @param patience_s [Numeric] seconds until then
      # @yieldparam event [Symbol] :stuck: a Gyre::Stop is about to be raised in the thread; :still:
      #   that did not help
      # @return [void]
      def watch(thread, patience_s, &block)
        @threads << Thread.new { insist(thread, patience_s, block) }
      end

      # Ends all watches.
      #
      # @return [void]
      def close = @threads.each(&:kill).each(&:join)

      private

      def insist(thread, patience_s, block)
        sleep(patience_s)
        return if answered?

        block.call(:stuck)
        thread.raise(Gyre::Stop.new("the server stops"))
        block.call(:still) unless answered?
      end

      def answered?
        before = @received
        deadline = Clock.now + @answer_s
        @control.post(:hello)
        sleep(0.01) while @received == before && Clock.now < deadline
        @received != before
      end
    end
  end
end
