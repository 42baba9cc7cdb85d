# frozen_string_literal: true

# What a server is told by signal handlers and other threads, in order: a pipe, a task that empties
# it as long as the loop runs, and the guard over that. The task takes messages also while the
# server is busy with an earlier one, so that a hook which waits does not look like a loop that does
# not run. Gyre::Web::Server owns one; what the messages mean is the server's.

require "gyre/web/control_pipe"
require "gyre/web/guard"

module Gyre
  module Web
    # See the head of this file.
    class Commands
      # @param messages [Array<Symbol>] as {ControlPipe#initialize} has them
      def initialize(*messages)
        @pipe = ControlPipe.new(*messages, :hello)
        @guard = Guard.new(@pipe)
        @taken = Thread::Queue.new
        @reader = nil
      end

      # Leaves a message. May be called from any thread and from a signal handler; it never waits.
      #
      # @param message [Symbol]
      # @return [void]
      def post(message) = @pipe.post(message)

      # Takes messages from now on, in a child of the present task.
      #
      # @return [void]
      def start
        @reader = Task.current.async("commands", transient: true) do
          loop do
            message = @pipe.take
            @guard.received
            @taken << message unless message == :hello
          end
        end
      end

      # Waits for the next message; other fibers run meanwhile.
      #
      # @return [Symbol]
      def take = @taken.pop

      # Checks later whether messages are taken (see Guard#watch).
      #
      # @param thread [Thread] the loop's
      # @param patience_s [Numeric] seconds until then
      # @yieldparam event [Symbol] :stuck or :still
      # @return [void]
      def watch(thread, patience_s, &block) = @guard.watch(thread, patience_s, &block)

      # Ends all watches, and takes no more messages.
      #
      # @return [void]
      def stop
        @guard.close
      ensure
        @reader&.stop
      end

      # @return [void]
      def close = @pipe.close
    end
  end
end
