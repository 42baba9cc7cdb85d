# frozen_string_literal: true

# A child process behind a pair of sockets: its input and output are the connection's data. Unbinds
# once the process's status is known.
require "timeout"

module Gyre
  module EventMachine
    module Descriptors
      class Child < Stream
        # The process.
        class Running
          GRACE_S = 0.5

          attr_reader :pid, :status

          # A program that cannot be started ends at once, as EventMachine's child does.
          def initialize(command, socket)
            @pid = Process.spawn([command.first, command.first], *command.drop(1), in: socket, out: socket)
          rescue SystemCallError
            @pid = Process.spawn("exit 255")
          end

          # True the first time.
          def ends? = !@ends && (@ends = true)

          # Waits for the end, and kills a process that does not end by itself.
          def reap
            %w[TERM KILL].each do |signal|
              return @status = Timeout.timeout(GRACE_S) { Process::Status.wait(@pid) }
            rescue Timeout::Error
              Process.kill(signal, @pid)
            end
            @status = Process::Status.wait(@pid)
          rescue SystemCallError
            @status ||= Process::Status.wait(@pid) # it is another user's now
          end
        end

        def initialize(reactor, command)
          ours, theirs = UNIXSocket.pair
          @process = Running.new(command, theirs)
          super(reactor, ours)
        ensure
          theirs&.close
        end

        def pid = @process.pid
        def status = @process.status

        private

        def unbound
          return unless @process.ends?

          guarded do
            shut_output
            @process.reap
          end
          super
        end

        def shut_output
          @transport.finish_available
        rescue SystemCallError, IOError
          nil # its end of the sockets is closed
        end
      end
    end
  end
end
