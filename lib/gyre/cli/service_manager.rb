# frozen_string_literal: true

# Tells systemd how the server is (sd_notify(3)): ready, a line of status, reloading, stopping, and
# that its watchdog need not bark. The commands that serve make one; without NOTIFY_SOCKET in the
# environment it does nothing. Sockets from systemd are Gyre::Web::Sockets'.

require "socket"

module Gyre
  module CLI
    # See the head of this file.
    class ServiceManager
      # @param environment [Hash{String => String}]
      def initialize(environment = ENV)
        @path = environment["NOTIFY_SOCKET"]
        @watchdog_s = watchdog(environment)
      end

      # @return [Boolean] whether there is one that listens
      def present? = !@path.nil?

      # @return [Float, nil] how often {#alive} is to be called, in seconds: half of what systemd
      #   waits for
      attr_reader :watchdog_s

      # @return [void]
      def ready = tell("READY=1")

      # @param text [String] one line, for `systemctl status`
      # @return [void]
      def status(text)
        tell("STATUS=#{text}") unless text == @status
        @status = text
      end

      # Until {#ready} is called again.
      # @return [void]
      def reloading
        tell("RELOADING=1\nMONOTONIC_USEC=#{Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond)}")
      end

      # @return [void]
      def stopping = tell("STOPPING=1")

      # @return [void]
      def alive = tell("WATCHDOG=1")

      private

      def watchdog(environment)
        return unless @path && environment["WATCHDOG_USEC"].to_i.positive?
        return if environment["WATCHDOG_PID"] && environment["WATCHDOG_PID"] != Process.pid.to_s

        environment["WATCHDOG_USEC"].to_i / 2e6
      end

      # Never waits, and is never an error: a server serves without its manager as well.
      def tell(text)
        return unless @path

        socket = Socket.new(:UNIX, :DGRAM)
        socket.sendmsg_nonblock(text, 0, Addrinfo.unix(@path.sub(/\A@/, "\0")), exception: false)
      rescue SystemCallError, ArgumentError
        nil
      ensure
        socket&.close
      end
    end
  end
end
