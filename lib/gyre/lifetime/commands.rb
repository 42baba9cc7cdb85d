# frozen_string_literal: true

# Passes messages from signal handlers and threads to a server, in order. A task takes each message
# from a queue even while an earlier one is handled. A watch interrupts an app that computes and so
# blocks the task. Made by Lifetime.

require "gyre/signals"
require "gyre/sync/queue"
require "stringio"

module Gyre
  class Lifetime
    # Messages are Symbols.
    class Commands
      # Maximum seconds that the loop may take to respond to a message.
      ANSWER_S = 1.0

      def initialize(answer_s: ANSWER_S)
        @answer_s = answer_s
        @posted = Gyre::Queue.new
        @taken = Thread::Queue.new
        @received = 0
        @watches = []
        @task = nil
      end

      # Never waits; any thread or signal handler may call it.
      def post(message) = @posted.push(message)

      # Starts to take messages, in a child of the current task.
      def start = @task = Task.current.async("commands", transient: true) { @posted.each { |message| receive(message) } }

      def take = @taken.pop

      # Starts a thread that checks after `patience_s` whether messages are taken. If not, yields
      # :stuck and raises Gyre::Stop in the loop's thread; if that does not help, yields :still.
      # Signal handlers may call it.
      def watch(thread, patience_s, &block) = @watches << Thread.new { insist(thread, patience_s, block) }

      # Ends all watches and the task.
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

    # Distinguishes two causes of HUP: the terminal has ended, or files are to be reopened.
    class Terminal
      # Returns HUP's handler: the program's own, "DEFAULT", or "IGNORE" under nohup.
      def self.handler = Signal.trap("HUP", "DEFAULT").tap { |former| Signal.trap("HUP", former || "SYSTEM_DEFAULT") }

      # @io is nil without a controlling terminal (setsid): no terminal's end then sends HUP.
      def initialize
        @io = [$stdin, $stdout, $stderr].find { |io| io.respond_to?(:tty?) && io.tty? }
        File.open("/dev/tty").close
      rescue SystemCallError
        @io = nil
      end

      def ended? = !@io.nil? && !@io.closed? && !@io.tty?
    end

    # Prints the process's tasks, with waits and backtraces, at QUIT, and at INFO where it exists
    # (Ctrl-T on BSD and macOS). Used by Lifetime.
    module TaskSignal
      NAMES = (%w[QUIT INFO] & Signal.list.keys).freeze
      # Minimum seconds between prints: a worker gets the signal from terminal and supervisor.
      ONCE_IN_S = 1

      # Calls `print` in a separate thread at each signal.
      def self.handle(print: method(:print), &block)
        last = -ONCE_IN_S
        on_signal = lambda do |_name|
          next if Clock.now - last < ONCE_IN_S

          last = Clock.now
          Thread.new { print.call } # a handler must take no lock
        end
        Signals.handle(NAMES, on_signal, &block)
      end

      # Prints with a single write.
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
