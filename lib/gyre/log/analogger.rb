# frozen_string_literal: true

# `require "gyre/log/analogger"`: Swiftcore::Analogger::Client with the original's names, for
# programs that used the analogger gem's client. It logs to any Analogger server, acknowledged where
# the server can do that, and is a Gyre::Log::Client otherwise. Do not load the gem beside it.

require "gyre/log/client"

# As the original's.
module Swiftcore
  # As the original's.
  class Analogger
    # A client that loses nothing: see docs/log.md for what is different.
    class Client < Gyre::Log::Client
      # The server refuses a wrong key; `new`, `log` and `reconnect` raise it.
      FailedToAuthenticate = Gyre::Log::Denied

      # Settings until they are set: seconds, attempts, bytes on disk, seconds, bytes in
      # memory.
      DEFAULTS = { connection_failure_timeout: 86_400 * 2, max_failure_count: (1 << 62) - 1,
                   persistent_queue_limit: 10_737_412_742, reconnect_throttle_interval: 0.1,
                   ram_queue_limit: Gyre::Log::ClientOptions::DEFAULTS[:memory_limit], tmplog: nil }.freeze

      class << self
        DEFAULTS.each do |name, default|
          define_method(name) { instance_variable_get(:"@#{name}") || default }
          define_method(:"#{name}=") { |value| instance_variable_set(:"@#{name}", value) }
        end
      end

      # Those of the class when the client was made. A client that has begun keeps what it began
      # with; setting them here is for `connection_failure_timeout` and `max_failure_count`.
      DEFAULTS.each_key do |name|
        define_method(name) { @originals.fetch(name) } unless name == :tmplog
        define_method(:"#{name}=") { |value| @originals[name] = value }
      end

      # Connects. Where no server answers, messages go to the spool until one does.
      #
      # @param service [#to_s]
      # @param host [String]
      # @param port [Integer]
      # @param key [String, nil]
      # @raise [FailedToAuthenticate] a wrong key
      # @raise [ArgumentError]
      def initialize(service = "default", host = "127.0.0.1", port = 6766, key = nil)
        @originals = DEFAULTS.keys.to_h { |name| [name, self.class.public_send(name)] }
        pause = [reconnect_throttle_interval.to_f, 0.001].max
        super(service, host: host, port: port, key: key, acknowledged: :if_possible, spool: tmplog ? File.dirname(tmplog) : true,
                       spool_limit: persistent_queue_limit, memory_limit: ram_queue_limit, retry_interval: (pause..[pause, 5.0].max))
        @began = Gyre::Clock.now
        connect
      end

      # Waits for the connection, or for the first failure.
      # @return [Boolean]
      # @raise [FailedToAuthenticate] a wrong key
      # @raise [SystemCallError, SocketError, IOError] for longer than connection_failure_timeout,
      #   or more often than max_failure_count
      def connect(timeout_s = @options.address.connect_timeout)
        ready
        @sender.wait(timeout_s) { raise_refusal || @sender.tried? }
        raise @sender.error if !authenticated? && @sender.error && failed_too_often?

        authenticated?
      end

      # @return [Boolean] whether there is a connection that the server accepted
      def authenticated? = @sender.state == :connected

      # @return [Integer] messages that were logged
      def total_count = @outbox.sequence

      # @return [String, nil] the folder of the spool
      def tmplog = @originals[:tmplog] || @options&.spool

      private

      # The original goes on after `close`, too: the next call of `log` connects again.
      def ready
        @sender.reopen if closed?
        super
      end

      def failed_too_often?
        @sender.dialer.failures > max_failure_count || Gyre::Clock.now - (@sender.dialer.connected_at || @began) > connection_failure_timeout
      end
    end
  end
end
