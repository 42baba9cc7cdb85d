# frozen_string_literal: true

# Carries the broadcasts of a program beside the workers, such as a job queue, to their supervisor,
# which passes them to all workers. The program inherits a socket. Each of its processes, also a
# forked one, sends the end of its own socket pair through it, so that no process's lines mix with
# another's. Receives nothing.
#
#   process ─ {join: true} + socket ─► inherited socket ─► supervisor ─► each worker
#           ─ {broadcast: […]} … ───► own socket ────────►

require "gyre/broadcast/carrier"
require "gyre/broadcast/relay"
require "socket"

module Gyre
  module Broadcast
    class Uplink
      # Environment variable: "<descriptor> <inode>" of the inherited socket.
      VARIABLE = "GYRE_UPLINK"
      # Returns the environment of a program that inherits the socket.
      def self.environment(socket) = { VARIABLE => "#{socket.fileno} #{socket.stat.ino}" }

      # Lets the process's messages go to the supervisor, if one has started this program.
      def self.attach
        descriptor, inode = ENV[VARIABLE].to_s.split.map(&:to_i)
        return unless inode && IO.for_fd(descriptor, autoclose: false).stat.ino == inode

        Relay.attach(new(UNIXSocket.for_fd(descriptor)).carrier, inherited: true)
      rescue SystemCallError
        nil # a program between has closed it
      end

      attr_reader :carrier

      def initialize(supervisor)
        supervisor.autoclose = false
        @supervisor = supervisor
        @report = ->(text) { warn("gyre: #{text}") }
        @carrier = Carrier.new("broadcasts to the workers", "the supervisor", @report) { run }
      end

      private

      # A worker drops what comes twice.
      def run
        socket = join
        @carrier.each do |texts|
          socket.write(texts.map { |text| %({"broadcast":#{text}}\n) }.join)
        rescue Errno::EPIPE # the supervisor has lost the other end
          socket.close
          socket = join
          retry
        end
      rescue SystemCallError => error
        @report.call("the supervisor does not take broadcasts any more: #{error.message}; those of this process are lost")
      ensure
        socket&.close
      end

      def join
        near, far = UNIXSocket.pair
        @supervisor.sendmsg("{\"join\":true}\n", 0, nil, Socket::AncillaryData.unix_rights(far))
        near
      ensure
        far&.close
      end
    end
  end
end
