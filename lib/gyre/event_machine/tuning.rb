# frozen_string_literal: true

# Functions that tune EventMachine. Most have no effect, because Gyre's loop chooses its backend.
require "etc"

module Gyre
  module EventMachine
    # Version of the gem eventmachine whose functions Gyre provides.
    VERSION = "1.2.7"
    # Classes of system errors by number.
    ERRNOS = Errno.constants.map { |name| Errno.const_get(name) }.grep(Class).to_h { |error| [error::Errno, error] }.freeze

    @heartbeat_interval = 2.0

    class << self
      # Seconds; without effect.
      attr_reader :heartbeat_interval
      alias get_heartbeat_interval heartbeat_interval

      def heartbeat_interval=(seconds)
        @heartbeat_interval = seconds.to_f
      end
      alias set_heartbeat_interval heartbeat_interval=

      def epoll? = true

      def kqueue? = false

      def epoll = true

      def kqueue = false

      def epoll=(value); end

      def kqueue=(value); end

      def ssl? = TLS.available?

      def library_type = :extension

      # Does nothing: timers are exact.
      def set_quantum(_milliseconds) = nil

      # Sets the limit of open descriptors if `count` is given. Returns the present limit.
      def set_descriptor_table_size(count = nil)
        soft, hard = Process.getrlimit(:NOFILE)
        Process.setrlimit(:NOFILE, count, [hard, count].max) if count && count != soft
        Process.getrlimit(:NOFILE).first
      rescue Errno::EPERM # a plain user may not raise the hard limit
        soft
      end

      # Switches the process to a user.
      def set_effective_user(name)
        user = Etc.getpwnam(name)
        Process.initgroups(name, user.gid)
        Process::Sys.setgid(user.gid)
        Process::Sys.setuid(user.uid)
      end
      alias setuid_string set_effective_user

      def release_machine; end
      alias cleanup_machine release_machine
    end
  end
end
