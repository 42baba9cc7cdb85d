# frozen_string_literal: true

# The functions that tune EventMachine. Gyre's loop chooses its backend by itself, so most of them
# have no effect.
require "etc"

module Gyre
  module EventMachine
    # The version of the gem whose functions these are.
    VERSION = "1.2.7"
    # Classes of the system's errors, by number.
    ERRNOS = Errno.constants.map { |name| Errno.const_get(name) }.grep(Class).to_h { |error| [error::Errno, error] }.freeze

    @heartbeat_interval = 2.0

    class << self
      # @return [Float] seconds; connections have timers of their own
      attr_reader :heartbeat_interval
      alias get_heartbeat_interval heartbeat_interval

      # @param seconds [Numeric]
      def heartbeat_interval=(seconds)
        @heartbeat_interval = seconds.to_f
      end
      alias set_heartbeat_interval heartbeat_interval=

      # @return [Boolean]
      def epoll? = true

      # @return [Boolean]
      def kqueue? = false

      # Gyre::Loop has chosen.
      def epoll = true

      # Gyre::Loop has chosen.
      def kqueue = false

      # @param value [Boolean]
      def epoll=(value); end

      # @param value [Boolean]
      def kqueue=(value); end

      # @return [Boolean]
      def ssl? = TLS.available?

      # @return [Symbol]
      def library_type = :extension

      # Timers are exact.
      def set_quantum(_milliseconds) = nil
      alias set_timer_quantum set_quantum

      # @param count [Integer, nil] the limit of descriptors
      # @return [Integer] the present limit
      def set_descriptor_table_size(count = nil)
        soft, hard = Process.getrlimit(:NOFILE)
        Process.setrlimit(:NOFILE, count, [hard, count].max) if count && count != soft
        Process.getrlimit(:NOFILE).first
      end
      alias set_rlimit_nofile set_descriptor_table_size

      # @param name [String] a user's, whose rights this process keeps
      # @return [void]
      def set_effective_user(name)
        user = Etc.getpwnam(name)
        Process.initgroups(name, user.gid)
        Process::Sys.setgid(user.gid)
        Process::Sys.setuid(user.uid)
      end
      alias setuid_string set_effective_user

      # @return [void]
      def initialize_event_machine; end
      alias release_machine initialize_event_machine
      alias cleanup_machine initialize_event_machine
    end
  end
end
