# frozen_string_literal: true

# Child processes: EventMachine.popen and system, and what tells when a process ends.
require "shellwords"

module Gyre
  module EventMachine
    # Collects a child's output for its callbacks.
    class DeferrableChildProcess < Connection
      include Deferrable

      # @param command [String, Array<String>]
      # @return [DeferrableChildProcess]
      def self.open(command) = EventMachine.popen(command, self)

      def initialize
        super
        @data = []
      end

      # @api private
      def receive_data(data) = @data << data

      # @api private
      def unbind = succeed(@data.join)
    end

    # Collects a child's output for {EventMachine.system}.
    # @api private
    class SystemCmd < Connection
      def initialize(callback)
        super
        @callback = callback
        @output = []
      end

      def receive_data(data) = @output << data

      def unbind = @callback&.call(@output.join, get_status)
    end

    # Tells when a process ends. It does not tell of forks, which Linux does not report.
    class ProcessWatch < Connection
      POLL_S = 0.05
      private_constant :POLL_S

      # @return [Integer]
      attr_reader :pid

      # @api private
      def self.new(_signature, *arguments)
        super(EventMachine.reactor.signature, *arguments)
      end

      # @return [void]
      def process_forked; end

      # @return [void]
      def process_exited; end

      # @return [void]
      def stop_watching
        raise InvalidSignature, "invalid signature" unless @timer

        EventMachine.cancel_timer(@timer)
        @timer = nil
        EventMachine.reactor.conns.delete(@signature)
        EventMachine.next_tick { unbind }
      end

      # @api private
      def watch(pid)
        @pid = pid
        raise Unsupported, "no process #{pid}" if over?

        @timer = EventMachine.add_periodic_timer(POLL_S) do
          next unless over?

          process_exited
          stop_watching if @timer
        end
      end

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
      # Starts a child; its output is the connection's data, and what is sent is its input.
      #
      # @param command [String, Array<String>] a String is split as a shell does, and runs without
      #   one
      # @return [Connection]
      def popen(command, handler = nil, *arguments)
        klass = klass_from_handler(Connection, handler, *arguments)
        words = command.is_a?(String) ? Shellwords.shellwords(command) : command
        connection = Descriptors::Child.new(running_reactor, words).open(klass, arguments)
        yield connection if block_given?
        connection
      end

      # Runs a command. A first callable is given the connection, the last one output and status.
      #
      # @param command [String]
      # @return [Integer] pid
      def system(command, *arguments, &callback)
        callback ||= arguments.pop if arguments.last.is_a?(Proc)
        beginning = arguments.pop if arguments.last.is_a?(Proc)
        command = [command, *arguments] if arguments.any?
        popen(command, SystemCmd, callback) { |connection| beginning&.call(connection) }.get_pid
      end

      # Watches a process.
      # @param pid [Integer]
      # @return [ProcessWatch]
      # @raise [Unsupported] there is no such process
      def watch_process(pid, handler = nil, *arguments)
        watch = klass_from_handler(ProcessWatch, handler, *arguments).new(nil, *arguments)
        watch.watch(pid.to_i)
        running_reactor.conns[watch.signature] = watch
        yield watch if block_given?
        watch
      end
    end
  end
end
