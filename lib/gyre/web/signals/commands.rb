# frozen_string_literal: true

# Passes messages from signal handlers and threads to a server, in order, through a queue that a
# task empties even while an earlier message is handled. A watch interrupts an app that blocks that
# task by computing. Made by Lifetime.

require "gyre/clock"
require "gyre/errors"
require "gyre/inspection/hierarchy"
require "gyre/signals"
require "gyre/sync/queue"
require "stringio"

module Gyre
  module Web
    # Messages are Symbols.
    class Commands
      # Seconds for the loop to respond.
      ANSWER_S = 1.0

      def initialize(answer_s: ANSWER_S)
        @answer_s = answer_s
        @posted = Gyre::Queue.new
        @taken = Thread::Queue.new
        @received = 0
        @watches = []
        @task = nil
      end

      # Never waits; any thread and signal handler may call it.
      def post(message) = @posted.push(message)

      # Takes messages in a child of the current task.
      def start = @task = Task.current.async("commands", transient: true) { @posted.each { |message| receive(message) } }

      def take = @taken.pop

      # Checks after `patience_s` that messages are taken. Yields in its own thread :stuck (before
      # it raises Gyre::Stop in the loop's thread), then :still if that did not help. Signal
      # handlers may call it.
      def watch(thread, patience_s, &block) = @watches << Thread.new { insist(thread, patience_s, block) }

      # Ends all watches and the taking of messages.
      def stop
        @watches.each(&:kill).each(&:join)
      ensure
        @task&.stop
      end

      private

      def receive(message)
        @received += 1
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

    # Tells a terminal's end, at which the kernel sends HUP, from a request to open files again.
    class Terminal
      # The program's handler of HUP, "DEFAULT", or "IGNORE" under nohup.
      def self.handler = Signal.trap("HUP", "DEFAULT").tap { |former| Signal.trap("HUP", former || "SYSTEM_DEFAULT") }

      # A process without a controlling terminal (setsid) does not hear of its end.
      def initialize
        @io = [$stdin, $stdout, $stderr].find { |io| io.respond_to?(:tty?) && io.tty? }
        File.open("/dev/tty").close
      rescue SystemCallError
        @io = nil
      end

      # Also for a closed one.
      def ended? = !@io.nil? && !@io.tty?
    end

    # Prints the process's tasks, waits and places at QUIT, and INFO where available (Ctrl-T on BSD
    # and macOS). Used by Gyre::Web::Server and a cluster's supervisor.
    module TaskSignal
      NAMES = (%w[QUIT INFO] & Signal.list.keys).freeze
      # A terminal signals each process, and the supervisor its workers again.
      ONCE_IN_S = 1

      # Calls `print` in a separate thread.
      def self.handle(print: method(:print), &block)
        last = -ONCE_IN_S
        on_signal = lambda do |_name|
          next if Clock.now - last < ONCE_IN_S

          last = Clock.now
          Thread.new { print.call } # a handler must take no lock
        end
        Signals.handle(NAMES, on_signal, &block)
      end

      # Prints by one write.
      def self.print(out = $stderr)
        text = StringIO.new
        text.puts "tasks of process #{Process.pid}:"
        Gyre.print_hierarchy(text, backtrace: true)
        out.write(text.string)
        out.flush
      rescue IOError, SystemCallError
        nil # nothing is left to write to
      end
    end
  end
end
