# frozen_string_literal: true

# Reports to systemd (sd_notify(3)) that a server is ready, reloading, stopping or alive, and its
# status. Does nothing if NOTIFY_SOCKET is not set. Gyre::Cluster::Sockets takes systemd's sockets.

require "socket"

module Gyre
  module CLI
    class ServiceManager
      STATUS_S = 1

      def initialize(environment = ENV)
        @path = environment["NOTIFY_SOCKET"]
        @watchdog_s = watchdog(environment)
      end

      attr_reader :watchdog_s # how often to call {#alive}: half of systemd's limit

      def ready = tell("READY=1")

      # Sends a line that `systemctl status` shows.
      def status(text) = (@status = text if text != @status && tell("STATUS=#{text}"))

      # Reports a reload, which lasts until {#ready}, or until the end of the block.
      def reloading
        tell("RELOADING=1\nMONOTONIC_USEC=#{Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond)}")
        return unless block_given?

        begin
          yield
        ensure
          ready
        end
      end

      def stopping = tell("STOPPING=1")

      def alive = tell("WATCHDOG=1")

      # Starts tasks: one reports the block's text as status, one reports life if `lives` is true.
      def attend(task, lives = -> { true })
        task.every(STATUS_S, "status") { status(yield) } if @path
        task.every(@watchdog_s, "systemd's watchdog") { alive if lives.call } if @watchdog_s
      end

      private

      def watchdog(environment)
        return unless @path && environment["WATCHDOG_USEC"].to_i.positive?
        return if environment["WATCHDOG_PID"] && environment["WATCHDOG_PID"] != Process.pid.to_s

        environment["WATCHDOG_USEC"].to_i / 2e6
      end

      # Never waits or fails, because a server needs no manager. Returns nil if the message is lost.
      def tell(text)
        return unless @path

        socket = Socket.new(:UNIX, :DGRAM)
        socket.sendmsg_nonblock(text, 0, Addrinfo.unix(@path.sub(/\A@/, "\0")))
      rescue SystemCallError, ArgumentError
        nil
      ensure
        socket&.close
      end
    end
  end
end
