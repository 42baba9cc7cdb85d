# frozen_string_literal: true

# A thread that carries a process's messages to other processes, for Redis and Uplink. It starts
# with the process's first message or subscriber, also in a forked child, and sends the last
# messages before the process ends.

require "gyre/broadcast/outbox"

module Gyre
  module Broadcast
    class Carrier
      EXIT_S = 2
      private_constant :EXIT_S

      # The block runs in the thread and calls {#each}. `peer` is the name of the other side.
      # `report` gets a text when messages are lost.
      def initialize(name, peer, report, &run)
        @name = name
        @peer = peer
        @report = report
        @run = run
        @lock = Thread::Mutex.new
        at_exit { finish if @pid == Process.pid }
      end

      def offer(text) = @outbox.offer(text)

      # Starts the thread, once in each process.
      def start
        return if @pid == Process.pid

        @lock.synchronize do
          next if @pid == Process.pid

          @sending = []
          @outbox = Outbox.new { |text| @report.call("#{@name}: #{@peer} #{text}") }
          @thread = Thread.new(&@run)
          @pid = Process.pid
        end
      end

      # Yields Arrays of messages until the process's end.
      def each
        finished = false
        until finished
          @sending = @outbox.take
          finished = @sending.delete("")
          yield @sending unless @sending.empty?
          @sending = []
        end
      end

      private

      # Waits for the last messages to leave. Reports lost messages.
      def finish
        @outbox.push("")
        return if @thread.join(EXIT_S)

        lost = @sending.size + @outbox.size
        @report.call("#{@name}: #{lost} messages were lost at the process's end") if lost.positive?
      end
    end
  end
end
