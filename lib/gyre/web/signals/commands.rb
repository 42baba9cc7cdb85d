# frozen_string_literal: true

# Passes messages from signal handlers and other threads to a server, in order: through a pipe, as a
# signal handler cannot take a lock, and a task that empties it. If an app computes without end and
# so blocks that task, a watch interrupts it. The task continues while the server handles an earlier
# message, so that a waiting hook does not look like a stuck loop. Made by Lifetime.

require "gyre/clock"
require "gyre/errors"
require "gyre/loop/wakeup_pipe"
require "io/wait"

module Gyre
  module Web
    # Messages are Symbols from a fixed list.
    class Commands
      # Seconds for the loop to respond.
      ANSWER_S = 1.0
      private_constant :ANSWER_S

      def initialize(*messages, answer_s: ANSWER_S)
        @messages = [*messages, :hello]
        @answer_s = answer_s
        @reader, @writer = Loop::WakeupPipe.open
        @taken = Thread::Queue.new
        @received = 0
        @watches = []
        @task = nil
      end

      # Posts a message. Never waits; any thread and signal handler may call it.
      def post(message)
        @writer.write_nonblock(@messages.index(message).chr, exception: false)
      rescue IOError, Errno::EPIPE
        nil # closed: the server has ended
      end

      # Starts taking messages, in a child of the current task.
      def start
        @task = Task.current.async("commands", transient: true) { loop { receive } }
      end

      # Waits for the next message; other fibers run meanwhile.
      def take = @taken.pop

      # Checks after `patience_s` whether messages are taken; leaves a working loop alone. Signal
      # handlers may call it. Yields, in its own thread, :stuck (before Gyre::Stop is raised in the
      # loop's thread), then :still if the loop stays stuck.
      def watch(thread, patience_s, &block)
        @watches << Thread.new { insist(thread, patience_s, block) }
      end

      # Ends all watches, and takes no more messages.
      def stop
        @watches.each(&:kill).each(&:join)
      ensure
        @task&.stop
      end

      def close = [@reader, @writer].each(&:close)

      private

      def receive
        @reader.wait_readable
        byte = @reader.read_nonblock(1, exception: false)
        return if byte == :wait_readable

        @received += 1
        message = @messages[byte.ord]
        @taken << message unless message == :hello
      end

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
        post(:hello)
        sleep(0.01) while @received == before && Clock.now < deadline
        @received != before
      end
    end
  end
end
