# frozen_string_literal: true

# Every size, count and time that bounds an HTTP/1 connection: one table with names, defaults and what happens beyond.
# The engines read a Limits object when a server starts; the command line, the DSL and the docs are made from TABLE.
# It enforces nothing by itself.

module Gyre
  module HTTP1
    # The limits of one server, frozen. Each row of TABLE is a reader.
    #
    #   Gyre::HTTP1::Limits.new(body_bytes_limit: 1 << 20).body_bytes_limit # => 1048576
    class Limits
      # One row: its name as a Symbol, its default, :bytes, :count or :seconds, the status that is answered beyond it
      # (nil: the connection just closes) and one line that says what it bounds.
      Row = Struct.new(:name, :default, :unit, :status, :meaning) do
        # @param value [Object]
        # @return [Integer, Float, nil] the value
        # @raise [ArgumentError] when the value is not one for this row
        def check(value)
          return value if value.nil? && unit == :seconds

          return value if unit == :seconds ? seconds?(value) : value.is_a?(Integer) && value >= minimum

          raise ArgumentError, "#{name} must be #{expected}, got #{value.inspect}"
        end

        # Zero is a meaningful size for a body and for what is read off, and for nothing else.
        #
        # @return [Integer] the smallest value of a row that is no time
        def minimum
          %i[body_bytes_limit unread_body_bytes_limit trailer_bytes_limit].include?(name) ? 0 : 1
        end

        private

        def seconds?(value)
          value.is_a?(Numeric) && value.real? && value.positive?
        end

        def expected
          unit == :seconds ? "a positive number of seconds, or nil for no limit" : "an Integer of at least #{minimum}"
        end
      end

      TABLE = [
        Row.new(:request_line_bytes_limit, 8_192, :bytes, 414, "the request line with its line end"),
        Row.new(:header_count_limit, 128, :count, 431, "header lines of a request"),
        Row.new(:header_bytes_limit, 65_536, :bytes, 431, "all header lines of a request together"),
        Row.new(:body_bytes_limit, 64 * 1024 * 1024, :bytes, 413, "the body of a request, decoded"),
        Row.new(:trailer_bytes_limit, 16_384, :bytes, 431, "the trailer lines after a chunked body"),
        Row.new(:unread_body_bytes_limit, 65_536, :bytes, nil,
                "what is read off of a body that the app left unread, to keep the connection"),
        Row.new(:first_byte_timeout_s, 30, :seconds, 408, "from accepting a connection to its first byte"),
        Row.new(:head_timeout_s, 30, :seconds, 408, "from the first byte of a request to the end of its head"),
        Row.new(:read_timeout_s, 30, :seconds, 408, "between two pieces of a request's body"),
        Row.new(:write_timeout_s, 30, :seconds, nil, "for a client that takes nothing of its answer"),
        Row.new(:keep_alive_timeout_s, 75, :seconds, nil, "for an idle connection until its next request"),
        Row.new(:linger_timeout_s, 2, :seconds, nil, "for a refused client to take the answer and close"),
        Row.new(:keep_alive_requests_limit, 1_000_000, :count, nil, "requests on one connection"),
        Row.new(:connections_limit, 20_000, :count, 503, "open connections of a server")
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
