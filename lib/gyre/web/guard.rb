# frozen_string_literal: true

# Sees to it that a server hears of a signal: an app that computes without end keeps its loop from everything. Gyre::Web::Server
# starts a watch with each signal; a thread asks the loop through the inbox, and cancels what the loop's thread computes if no
# answer comes. It never touches a loop that answers.

require "gyre/errors"

module Gyre
  module Web
    # The watches over one server.
    class Guard
      # How long the loop may take for an answer.
      ANSWER_S = 1.0
      private_constant :ANSWER_S

      # @param inbox [Inbox] that knows the message :hello
      # @param answer_s [Numeric] seconds that the loop has for an answer
      def initialize(inbox, answer_s: ANSWER_S)
        @inbox = inbox
        @answer_s = answer_s
        @heard = 0
        @threads = []
      end

      # From the loop: a message has been taken out of the inbox.
      #
      # @return [void]
      def heard
        @heard += 1
      end

      # Looks whether the loop takes messages, later on. May be called in a signal handler.
      #
      # @param thread [Thread] the loop's
      # @param patience_s [Numeric] seconds until then
      # @yieldparam event [Symbol] :stuck: a Gyre::Stop is about to be raised in the thread; :still: that did not help
      # @return [void]
      def watch(thread, patience_s, &block)
        @threads << Thread.new { insist(thread, patience_s, block) }
      end

      # Ends all watches.
      #
      # @return [void]
      def close
        @threads.each(&:kill).each(&:join)
      end

      private

      def insist(thread, patience_s, block)
        sleep(patience_s)
        return if answered?

        block.call(:stuck)
        thread.raise(Gyre::Stop.new("the server stops"))
        block.call(:still) unless answered?
      end

      def answered?
        before = @heard
        deadline = now + @answer_s
        @inbox.post(:hello)
        sleep(0.01) while @heard == before && now < deadline
        @heard != before
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
