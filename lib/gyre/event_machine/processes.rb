# frozen_string_literal: true

# Child processes: EventMachine.popen, system and watch_process.
require "shellwords"
require "timeout"

module Gyre
  module EventMachine
    module Descriptors
      # A child process that is connected by a socket pair. Its output is the connection's input,
      # and sent bytes are its input. Calls `unbind` after the process's status is known.
      class Child < Stream
        # Seconds until the next signal.
        GRACE_S = { "TERM" => 0.5, "KILL" => 1 }.freeze
        attr_reader :pid, :status

        # If the program cannot be started, the child exits with status 255, as in EventMachine.
        def initialize(reactor, command)
          ours, theirs = UNIXSocket.pair
          @pid = begin
            Process.spawn([command.first, command.first], *command.drop(1), in: theirs, out: theirs)
          rescue SystemCallError
            Process.spawn("exit 255")
          end
          super(reactor, ours)
        ensure
          theirs&.close
        end

        private

        def unbound
          return if @ends

          @ends = true
          guarded do
            checked { @transport.finish_available }
            reap
          end
          super
        end

        # Waits for the process, and kills it if it does not exit.
        def reap
          GRACE_S.each do |signal, seconds|
            return @status = Timeout.timeout(seconds) { Process::Status.wait(@pid) }
          rescue Timeout::Error
            Process.kill(signal, @pid)
          end
          @status = Process::Status.wait(@pid)
        rescue SystemCallError
          @status ||= Process::Status.wait(@pid) # it is another user's now
        end
      end
    end

    # Collects a child's output for its callbacks.
    class DeferrableChildProcess < Connection
      include Deferrable

      def self.open(command) = EventMachine.popen(command, self)

      def initialize
        super
        @data = []
      end

      def receive_data(data) = @data << data

      def unbind = succeed(@data.join)
    end

    # Collects a child's output for {EventMachine.system}.
    class SystemCmd < DeferrableChildProcess
      def initialize(callback)
        super()
        @callback = callback
      end

      def unbind = @callback&.call(@data.join, get_status)
    end

    # Reports the end of a process. Does not report forks, because Linux does not.
    class ProcessWatch < Watch
      POLL_S = 0.05

      attr_reader :pid

      def process_forked; end

      def process_exited; end

      def watch(pid)
        @pid = pid.to_i
        raise Unsupported, "no process #{pid}" if over?

        @watching = true
        @timer = EventMachine.add_periodic_timer(POLL_S) do
          next unless over?

          process_exited
          stop_watching if @watching
        end
      end

      def release = @timer.cancel

      private

      # True if the process has ended, even if it is still a zombie.
      def over?
        Process.getpgid(@pid)
        File.exist?(path = "/proc/#{@pid}/stat") && File.read(path)[/.*\) (\w)/, 1] == "Z"
      rescue Errno::ESRCH, Errno::ENOENT
        true
      end
    end

    class << self
      # Starts a child process whose input and output are the connection's data. A String is split
      # like a command line, but no shell runs it.
      def popen(command, handler = nil, *arguments, &block)
        words = command.is_a?(String) ? Shellwords.shellwords(command) : command
        opened(handler, arguments, block) { Descriptors::Child.new(reactor, words) }
      end

      # Runs a command. The last callable gets output and status; a callable before it gets the
      # connection. Returns the pid.
      def system(command, *arguments, &callback)
        callback ||= arguments.pop if arguments.last.is_a?(Proc)
        beginning = arguments.pop if arguments.last.is_a?(Proc)
        command = [command, *arguments] if arguments.any?
        popen(command, SystemCmd, callback) { |connection| beginning&.call(connection) }.get_pid
      end

      # Raises Unsupported if the process does not exist.
      def watch_process(pid, handler = nil, *arguments, &block) = watching(ProcessWatch, pid, handler, arguments, &block)
    end
  end
end
