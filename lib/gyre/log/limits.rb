# frozen_string_literal: true

# Every size, count and time that bounds the log server and its connections: one table with names, defaults and what they
# mean. The server reads a Limits object when it starts; configuration and docs are made from TABLE. It enforces nothing by
# itself.

module Gyre
  module Log
    # The limits of one server, frozen. Each row of TABLE is a reader.
    #
    #   Gyre::Log::Limits.new(connections_limit: 50).connections_limit # => 50
    class Limits
      # One row: its name as a Symbol, its default, :bytes, :count or :seconds, and one line that says what it bounds.
      Row = Struct.new(:name, :default, :unit, :meaning) do
        # @param value [Object]
        # @return [Integer, Float, nil] the value
        # @raise [ArgumentError] when the value is not one for this row
        def check(value)
          return value if value.nil? && unit == :seconds
          return value if unit == :seconds ? seconds?(value) : value.is_a?(Integer) && value.positive?

          raise ArgumentError, "#{name} must be #{expected}, got #{value.inspect}"
        end

        private

        def seconds?(value)
          value.is_a?(Numeric) && value.real? && value.positive?
        end

        def expected
          unit == :seconds ? "a positive number of seconds, or nil for no limit" : "an Integer of at least 1"
        end
      end

      TABLE = [
        Row.new(:connections_limit, 10_000, :count, "open connections; a further one is told so and closed"),
        Row.new(:authentication_timeout_s, 10, :seconds, "from accepting a connection to its whole first frame, with the TLS handshake"),
        Row.new(:idle_timeout_s, nil, :seconds, "for an authenticated connection without a byte; nil: for ever"),
        Row.new(:linger_timeout_s, 2, :seconds, "for a refused client to take the error line and close"),
        Row.new(:stop_timeout_s, 30, :seconds, "for writing and syncing all at the end, and before a restart"),
        Row.new(:frame_bytes_limit, 8_192, :bytes, "a frame of the old wire has fewer (Analogger's own limit; four digits carry 9999)"),
        Row.new(:message_bytes_limit, 1_048_576, :bytes,
                "one syslog message, JSON line or record (these have 1M at least); while one is incomplete, it is all that a connection keeps"),
        Row.new(:memory_bytes_limit, 67_108_864, :bytes, "messages in memory; beyond it nothing is read until half of it is written"),
        Row.new(:tailers_limit, 100, :count, "connections that follow the log"),
        Row.new(:tail_bytes_limit, 1_048_576, :bytes, "lines kept for one that follows too slowly; further ones are dropped and counted"),
        Row.new(:services_limit, 1_000, :count, "services that are counted by name"),
        Row.new(:sessions_limit, 10_000, :count, "acknowledged clients remembered in memory while they are away"),
        Row.new(:complaints_limit, 20, :count, "log lines a second about what clients did wrong; the rest is counted")
      ].each(&:freeze).freeze

      TABLE.each { |row| attr_reader row.name }

      # @param overrides [Hash{Symbol => Numeric, nil}] by the names in TABLE; nil for a time means no limit
      # @raise [ArgumentError] for an unknown name or a value that is none
      def initialize(**overrides)
        unknown = overrides.keys - TABLE.map(&:name)
        raise ArgumentError, "unknown limit #{unknown.first}; known: #{TABLE.map(&:name).join(", ")}" unless unknown.empty?

        TABLE.each { |row| instance_variable_set(:"@#{row.name}", row.check(overrides.fetch(row.name, row.default))) }
        freeze
      end

      # @param overrides [Hash{Symbol => Numeric, nil}]
      # @return [Limits] a copy with some values replaced
      def with(**overrides)
        Limits.new(**to_h, **overrides)
      end

      # @return [Hash{Symbol => Numeric, nil}] all names and values
      def to_h
        TABLE.to_h { |row| [row.name, public_send(row.name)] }
      end
    end
  end
end
