# frozen_string_literal: true

# Child processes: EventMachine.popen, system and watch_process.
require "shellwords"

module Gyre
  module EventMachine
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

    # Reports the end of a process, but no forks, which Linux does not report.
    class ProcessWatch < Watch
      POLL_S = 0.05
      private_constant :POLL_S

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

      # A zombie is over, too.
      def over?
        Process.kill(0, @pid)
        File.exist?("/proc/#{@pid}/stat") && File.read("/proc/#{@pid}/stat")[/.*\) (\w)/, 1] == "Z"
      rescue Errno::ESRCH, Errno::ENOENT
        true
      rescue Errno::EPERM
        false
      end
    end

    class << self
      # Starts a child, whose output and input are the connection's. A String is split as by a
      # shell, and runs without one.
      def popen(command, handler = nil, *arguments)
        klass = klass_from_handler(Connection, handler, *arguments)
        words = command.is_a?(String) ? Shellwords.shellwords(command) : command
        connection = Descriptors::Child.new(running_reactor, words).open(klass, arguments)
        yield connection if block_given?
        connection
      end

      # The first callable gets the connection, the last one output and status. Returns the pid.
      def system(command, *arguments, &callback)
        callback ||= arguments.pop if arguments.last.is_a?(Proc)
        beginning = arguments.pop if arguments.last.is_a?(Proc)
        command = [command, *arguments] if arguments.any?
        popen(command, SystemCmd, callback) { |connection| beginning&.call(connection) }.get_pid
      end

      # Raises Unsupported if there is no such process.
      def watch_process(pid, handler = nil, *arguments, &block) = watching(ProcessWatch, pid, handler, arguments, &block)
    end
  end
end
