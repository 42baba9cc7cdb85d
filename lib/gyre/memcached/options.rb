# frozen_string_literal: true

# A client's options, with Dalli's names. Raises for unknown names, which may be misspelt.

require "gyre/memcached/keys"
require "gyre/memcached/openssl_context"
require "gyre/memcached/values"
require "gyre/settings"

module Gyre
  module Memcached
    class Options
      row = Gyre::Settings.method(:row)
      type = Gyre::Settings::Type.method(:new)
      logger = type["LOGGER", "a Logger, or return one when it is called"] { |value| value if value.respond_to?(:call) || value.respond_to?(:warn) }
      digest = type["DIGEST", "a class like Digest::SHA256, with hexdigest"] { |value| value if value.respond_to?(:hexdigest) }
      separator = type["CHARACTER", "one character like : or /, no letter, digit or space"] { |value| value.to_s[/\A[^a-zA-Z0-9\x00-\x20\x7F]\z/] }
      # Accepts Floats, such as Rails' 1.5.megabytes.
      bytes = type["BYTES", "a number of bytes like 500, 64k or 10M"] do |value|
        Units.bytes(value.is_a?(Float) && value.finite? ? value.to_i : value)
      end

      SETTINGS = Gyre::Settings.new({
        "Keys" => [
          row[:namespace, :any, "prefix of each key; a Proc is called each time"],
          row[:namespace_separator, separator, "character between namespace and key", default: ":"],
          row[:digest_class, digest, "shortens keys over 250 bytes", default: Digest::MD5],
          row[:control_characters, :flag, "accept keys with control characters, as base64", default: false]
        ],
        "Values" => [
          row[:serializer, :any, "dumps and loads objects: Marshal, JSON, …", default: Serializer, usual: "a safe one"],
          row[:compressor, :any, "compresses and decompresses", default: ZLIB, usual: "zlib"],
          row[:compress, :flag, "compress values of compression_min_size and more", default: true],
          row[:compression_min_size, bytes, "shortest value that is compressed", default: 4_096, usual: "4K"],
          row[:decompressed_max_bytes, bytes, "longest value after decompression", default: 134_217_728, usual: "128M"],
          row[:value_max_bytes, bytes, "the servers' limit of an item (their option -I)", default: 1_048_576, usual: "1M"],
          row[:raw, :flag, "store only Strings, unchanged", default: false],
          row[:string_fastpath, :flag, "store Strings in UTF-8 or binary unchanged", default: true],
          row[:too_large_error, :any, "raised for a value over the limit", default: ValueTooLarge]
        ],
        "Servers" => [
          row[:expires_in, :any, "time to live of commands without one: seconds or a Unix time", usual: "never"],
          row[:failover, :flag, "give the keys of a server that is down to others", default: true],
          row[:cache_nils, :flag, "a stored nil is a value for fetch", default: false],
          row[:socket_timeout, :timeout, "for the next reply", default: 1],
          row[:connect_timeout, :timeout, "for a connection", usual: "as socket_timeout"],
          row[:socket_max_failures, :count, "failures in a row until a server counts as down", range: 0.., default: 2],
          row[:socket_failure_delay, :timeout, "between attempts to connect", range: 0.., default: 0.1],
          row[:down_retry_delay, :seconds, "how long a server counts as down", range: 0.., default: 30],
          row[:tls, :any, "true, or a context of Gyre::TLS.client"],
          row[:ssl_context, :any, "an OpenSSL::SSL::SSLContext with ca_file or ca_path"],
          row[:username, :any, "for servers whose address has none"],
          row[:password, :any, "for servers whose address has none"],
          row[:logger, logger, "gets a line when a server goes down or comes back"]
        ]
      }, what: "option of a memcached client")

      # Dalli's options that this client ignores. Some are needless: pipelines need no lock, replies
      # always match their commands, and the transport sets TCP options.
      WITHOUT_EFFECT = %i[threadsafe keepalive sndbuf rcvbuf defer_drain verify_reply_keys enforce_read_timeout silence_marshal_warning
                          otel_db_statement otel_peer_service protocol pool_size pool_timeout].freeze

      NAMES = [*SETTINGS.names, *WITHOUT_EFFECT].freeze

      attr_reader :keys
      attr_reader :values
      attr_reader :expiry
      attr_reader :tls

      # `keywords` override `table`.
      def self.of(table, keywords)
        raise ArgumentError, "options must be a Hash, got #{table.inspect[0, 80]}" unless table.nil? || table.is_a?(Hash)

        new({ **table.to_h, **keywords })
      end

      def initialize(given = {})
        @all = SETTINGS.complete(given.except(*WITHOUT_EFFECT))
        @keys = Keys.new(**of("Keys"))
        @values = Values.new(**of("Values"))
        @expiry = Expiry.new(@all[:expires_in])
        @tls = TLS.context(@all[:tls], server: false) || context_of(@all[:ssl_context])
        freeze
      end

      # Returns the given value or the default.
      def [](name) = @all.fetch(name)

      def connect_timeout_s = @all[:connect_timeout] || @all[:socket_timeout]

      def failures_limit = [@all[:socket_max_failures], 1].max

      # Returns the logger for messages about servers that go down or come back.
      def logger = @all[:logger].respond_to?(:call) ? @all[:logger].call : @all[:logger]

      # Called when Ractor.new copies a client, because the options are copied first.
      def initialize_clone(...)
        raise TypeError, "a memcached client cannot be given to another Ractor: make one there"
      end

      # Omits values, because one of them is a password.
      def inspect = "#<#{self.class}>"

      private

      def context_of(context)
        return TLS.context(context, server: false) if context.nil? || context.is_a?(TLS::Context)

        OpenSSLContext.convert(context)
      end

      def of(group) = @all.slice(*SETTINGS.groups.fetch(group).map(&:name))
    end

    # Converts times to live to memcached's form: seconds up to 30 days, or a Unix time.
    class Expiry
      # Larger numbers are Unix times for memcached.
      INTERVAL_S_LIMIT = 30 * 24 * 60 * 60

      # Signed 32-bit integers.
      ACCEPTED = (-(2**31)..(2**31) - 1).freeze

      # If `default_s` is nil, values do not expire. `clock` returns a Unix time.
      def initialize(default_s = nil, clock: -> { Time.now.to_i })
        @clock = clock
        @default_s = default_s ? whole(default_s) : 0
      end

      # Takes seconds, a future Unix time, or a String of digits. 0 means no expiry, a negative
      # number an expired value, nil the default. Raises ArgumentError.
      def seconds(ttl)
        ttl = ttl.nil? ? @default_s : whole(ttl)
        if ttl > INTERVAL_S_LIMIT
          now = @clock.call
          ttl += now if ttl <= now
        end
        return ttl if ACCEPTED.cover?(ttl)

        raise ArgumentError, "a time to live must be a number of seconds or a Unix time up to #{ACCEPTED.end}, got #{ttl}"
      end

      private

      def whole(ttl)
        return ttl if ttl.is_a?(Integer)
        return Integer(ttl, 10) if ttl.is_a?(String)

        seconds = ttl.to_i
        seconds.zero? && ttl.respond_to?(:positive?) && ttl.positive? ? 1 : seconds # 0 means without end
      rescue ArgumentError, NoMethodError, FloatDomainError
        raise ArgumentError, "a time to live must be a number of seconds, got #{ttl.inspect[0, 80]}"
      end
    end
  end
end
