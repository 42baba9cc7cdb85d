# frozen_string_literal: true

# What a client can be told, by Dalli's names, sorted for the parts that use it. Made by the client
# once. An unknown name is an error, so that a misspelt one does not go unnoticed.

require "gyre/memcached/expiry"
require "gyre/memcached/keys"
require "gyre/memcached/values"
require "gyre/net/tls"

module Gyre
  module Memcached
    # The options of one client.
    class Options
      # What goes to Keys and Values as it is.
      KEYS = %i[namespace namespace_separator digest_class control_characters].freeze
      VALUES = %i[serializer compressor compress compression_min_size decompressed_max_bytes value_max_bytes raw string_fastpath
                  too_large_error].freeze

      # The others, with their defaults.
      DEFAULTS = {
        expires_in: nil, failover: true, cache_nils: false, socket_timeout: 1, connect_timeout: nil, socket_max_failures: 2,
        socket_failure_delay: 0.1, down_retry_delay: 30, tls: nil, ssl_context: nil, username: nil, password: nil, logger: nil
      }.freeze

      # Dalli's for what this client does in another way or not at all: pipelines need no lock, a
      # reply is always matched, TCP settings are the transport's.
      WITHOUT_EFFECT = %i[threadsafe keepalive sndbuf rcvbuf defer_drain verify_reply_keys enforce_read_timeout silence_marshal_warning
                          otel_db_statement otel_peer_service protocol pool_size pool_timeout].freeze

      # All of them.
      NAMES = [*KEYS, *VALUES, *DEFAULTS.keys, *WITHOUT_EFFECT].freeze

      # @return [Keys]
      attr_reader :keys
      # @return [Values]
      attr_reader :values
      # @return [Expiry]
      attr_reader :expiry
      # @return [Gyre::TLS::Context, nil]
      attr_reader :tls
      # @return [String, nil] for all servers whose address has none
      attr_reader :username, :password

      # @param table [Hash{Symbol => Object}, nil] as Dalli takes options
      # @param keywords [Hash{Symbol => Object}] count more than the table's
      # @return [Options]
      # @raise [ArgumentError]
      def self.of(table, keywords)
        raise ArgumentError, "options must be a Hash, got #{table.inspect[0, 80]}" unless table.nil? || table.is_a?(Hash)

        new({ **table.to_h, **keywords })
      end

      # @param given [Hash{Symbol => Object}] see docs/memcached.md
      # @raise [ArgumentError] for an unknown name or a value that is none
      def initialize(given = {})
        unknown = given.keys - NAMES
        unless unknown.empty?
          raise ArgumentError, "unknown option #{unknown.first.inspect} for a memcached client; known: #{[*KEYS, *VALUES, *DEFAULTS.keys].join(", ")}"
        end

        @keys = Keys.new(**given.slice(*KEYS))
        @values = Values.new(**given.slice(*VALUES).compact)
        @others = DEFAULTS.merge(given.slice(*DEFAULTS.keys))
        @expiry = Expiry.new(@others[:expires_in])
        @tls = TLS.context(@others[:tls], server: false) || context_of(@others[:ssl_context])
        @username = @others[:username]
        @password = @others[:password]
        check
        freeze
      end

      # @return [Boolean] whether keys of a server that is down go to others
      def failover? = @others[:failover] != false

      # @return [Boolean] whether a stored nil is a value for fetch
      def cache_nils? = @others[:cache_nils] ? true : false

      # A call that is repeated has them again, failures_limit times at most.
      # @return [Numeric, nil] seconds for the next reply; nil: no limit
      def timeout_s = @others[:socket_timeout]

      # @return [Numeric, nil] seconds for a connection; nil: no limit
      def connect_timeout_s = @others[:connect_timeout] || timeout_s

      # @return [Integer] failures one after the other, until a server counts as down
      def failures_limit = [@others[:socket_max_failures], 1].max

      # @return [Numeric, nil] seconds between attempts to connect
      def failure_delay_s = @others[:socket_failure_delay]

      # @return [Numeric] how many seconds a server counts as down
      def down_retry_s = @others[:down_retry_delay]

      # @return [#warn, #info, nil] what is told that a server is down, and that it is back
      def logger = @others[:logger].respond_to?(:call) ? @others[:logger].call : @others[:logger]

      # Ractor.new copies what it is given, and copies these first.
      # @raise [TypeError]
      def initialize_clone(...)
        raise TypeError, "a memcached client cannot be given to another Ractor: make one there"
      end

      # @return [String] without values, for there is a password among them
      def inspect = "#<#{self.class}>"

      private

      # What Ruby's context has as settings. Ruby does not show what is in a store of certificates;
      # set_params gives the system's to a context without authorities of its own.
      def context_of(context)
        return unless context
        return TLS.context(context, server: false) if context.is_a?(TLS::Context)
        if context.cert_store && !context.cert_store.equal?(OpenSSL::SSL::SSLContext::DEFAULT_CERT_STORE)
          raise ArgumentError, "ssl_context: the certificates of a cert_store cannot be read from it: write the authorities to a PEM file, and " \
                               "name it by the context's ca_file instead, or use tls: Gyre::TLS.client(ca: path) instead of ssl_context"
        end

        verify = context.verify_mode.to_i.anybits?(OpenSSL::SSL::VERIFY_PEER)
        TLS.client(ca: context.ca_file || context.ca_path, certificate: context.cert&.to_pem, key: context.key&.to_pem, verify: verify)
      end

      def check
        %i[socket_timeout connect_timeout].each { |name| number(name, above: 0) if @others[name] }
        number(:socket_failure_delay) if @others[:socket_failure_delay]
        number(:down_retry_delay)
        logger = @others[:logger]
        unless logger.nil? || logger.respond_to?(:call) || logger.respond_to?(:warn)
          raise ArgumentError, "logger must be a Logger, or return one when it is called, got #{logger.inspect}"
        end
        failures = @others[:socket_max_failures]
        return if failures.is_a?(Integer) && failures >= 0

        raise ArgumentError, "socket_max_failures must be an Integer from 0 on, got #{failures.inspect}"
      end

      def number(name, above: nil)
        value = @others[name]
        return if value.is_a?(Numeric) && value.real? && (above ? value > above : value >= 0)

        raise ArgumentError, "#{name} must be a number of seconds#{" above 0" if above}, got #{value.inspect}"
      end
    end
  end
end
