# frozen_string_literal: true

# A child process behind a pair of sockets: its input and output are the connection's data. The
# connection is unbound once the process is over and its status known.

module Gyre
  module EventMachine
    module Descriptors
      class Child < Stream
        GRACE_S = 0.5
        POLL_S = 0.002

        attr_reader :pid, :status

        def initialize(reactor, command)
          ours, theirs = UNIXSocket.pair
          @pid = spawn(command, theirs)
          super(reactor, ours)
        ensure
          theirs&.close
        end

        private

        # A program that cannot be started ends at once, as EventMachine's child does.
        def spawn(command, socket)
          Process.spawn([command.first, command.first], *command.drop(1), in: socket, out: socket)
        rescue SystemCallError
          Process.spawn("exit 255")
        end

        def unbound
          return if @over || @ending

          @ending = true
          guarded { reap }
          super
        end

        # Ends a child that has not ended by itself.
        def reap
          @transport.finish_available
          %w[TERM KILL].each do |signal|
            return if ended?

            Process.kill(signal, @pid)
          end
          @status = Process::Status.wait(@pid)
        rescue SystemCallError, IOError
          @status ||= Process::Status.wait(@pid) # its end of the sockets is closed
        end

        def ended?
          until_s = Clock.now + GRACE_S
          pause_s = POLL_S
          until (@status = Process::Status.wait(@pid, Process::WNOHANG))
            return false if Clock.now > until_s

            sleep(pause_s)
            pause_s *= 1.5
          end
          true
        end
      end
    end
  end
end
