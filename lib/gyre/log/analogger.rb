# frozen_string_literal: true

# Defines Swiftcore::Analogger::Client, like the analogger gem, which must not be loaded as well.
# Loaded by `require "gyre/log/analogger"`. Uses acknowledgements if the server offers them.

require "gyre/log/client"

# The original gem's module.
module Swiftcore
  # The original gem's module.
  class Analogger
    # A log client that keeps unsent records on disk; docs/log.md compares it with the gem.
    class Client < Gyre::Log::Client
      # Raised by `new`, `log` and `reconnect` if the server refuses the key.
      FailedToAuthenticate = Gyre::Log::Denied

      # Defaults of Analogger's client: times in seconds, limits in bytes.
      DEFAULTS = { connection_failure_timeout: 86_400 * 2, max_failure_count: (1 << 62) - 1,
                   persistent_queue_limit: 10_737_412_742, reconnect_throttle_interval: 0.1,
                   ram_queue_limit: Gyre::Log::ClientOptions::DEFAULTS[:memory_limit], tmplog: nil }.freeze

      class << self
        DEFAULTS.each do |name, default|
          define_method(name) { instance_variable_get(:"@#{name}") || default }
          define_method(:"#{name}=") { |value| instance_variable_set(:"@#{name}", value) }
        end
      end

      # A new client copies the class's settings. Changes of the copies have an effect only for
      # `connection_failure_timeout` and `max_failure_count`.
      DEFAULTS.each_key do |name|
        define_method(name) { @originals.fetch(name) } unless name == :tmplog
        define_method(:"#{name}=") { |value| @originals[name] = value }
      end

      # Connects. If the server is unreachable, messages go to the spool.
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

      # Waits until the connection succeeds or fails for the first time.
      # @return [Boolean]
      # @raise [FailedToAuthenticate] a wrong key
      # @raise [SystemCallError, SocketError, IOError] after connection_failure_timeout
      def connect(timeout_s = @options.address.connect_timeout)
        ready
        @sender.wait(timeout_s) { raise_refusal || @sender.state != :connecting }
        raise @sender.error if !authenticated? && @sender.error && failed_too_often?

        authenticated?
      end

      # @return [Boolean] whether the server has accepted the connection
      def authenticated? = @sender.state == :connected

      # @return [Integer] messages that were logged
      def total_count = @outbox.sequence

      # @return [String, nil] the folder of the spool
      def tmplog = @originals[:tmplog] || @options&.spool

      private

      # `log` after `close` connects again, as in the gem.
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
