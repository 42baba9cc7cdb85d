# frozen_string_literal: true

# What can be set for a web server, with defaults and checks: one list for the command line, the configuration file
# and Gyre::Web::Server. The limits of HTTP are in it too, straight from Gyre::HTTP::Limits::TABLE.
# It reads no file and starts nothing.

require "gyre/net/endpoint"
require "gyre/http/limits"
require "gyre/net/units"
require "gyre/web/log_format"

module Gyre
  module Web
    # Settings are a Hash: the names below, and :limits with a Hash of its own.
    module Settings
      DEFAULT_PORT = 9292
      SHUTDOWN_TIMEOUT_S = 30

      # A setting beside the limits: its name and one line that says what it is.
      Row = Struct.new(:name, :meaning)

      TABLE = [
        Row.new(:bind, "an address to listen on; may be given several times"),
        Row.new(:host, "the host part of one more address"),
        Row.new(:port, "the port part of one more address"),
        Row.new(:environment, "development, production, …"),
        Row.new(:rackup, "the file that makes the app"),
        Row.new(:log_format, "the access log: #{LogFormat::NAMES.join(", ")}"),
        Row.new(:shutdown_timeout, "seconds that running requests get to finish after INT or TERM"),
        Row.new(:pidfile, "a file that holds the process id while the server runs"),
        Row.new(:quiet, "true: say nothing but errors")
      ].each(&:freeze).freeze

      # Names that people bring along from other servers, and what to write here.
      FOREIGN = {
        persistent_timeout: "write keep_alive_timeout", first_data_timeout: "write first_byte_timeout",
        http_content_length_limit: "write body_bytes_limit", force_shutdown_after: "write shutdown_timeout",
        worker_shutdown_timeout: "write shutdown_timeout", max_keep_alive: "write keep_alive_requests_limit",
        threads: "leave it out: every request has a fiber of its own, there is no pool to size",
        count: "leave it out: a server is one process so far", workers: "leave it out: a server is one process so far"
      }.freeze

      module_function

      # @return [Array<Symbol>] every name, limits without their unit
      def names
        TABLE.map(&:name) + limits.map { |row| short_name(row) }
      end

      # @return [Array<Gyre::HTTP::Limits::Row>]
      def limits
        HTTP::Limits::TABLE
      end

      # @param row [Gyre::HTTP::Limits::Row]
      # @return [Symbol] its name as flags and files have it: a time without its unit
      def short_name(row)
        row.name.to_s.delete_suffix("_s").to_sym
      end

      # @param name [Symbol] with or without the unit
      # @return [Gyre::HTTP::Limits::Row, nil]
      def limit(name)
        limits.find { |row| row.name == name || short_name(row) == name }
      end

      # @param row [Gyre::HTTP::Limits::Row]
      # @param text [String] as people write it: 64k, 10M, 1.5, none
      # @return [Integer, Float, nil]
      # @raise [ArgumentError] when it cannot be one; the message says what can
      def read_limit(row, text)
        value = case row.unit
                when :seconds then text == "none" ? nil : Units.number(text) || text
                when :bytes   then Units.bytes(text)
                else Integer(text, 10, exception: false)
                end
        row.check(value)
      rescue ArgumentError
        raise ArgumentError, "must be #{expected(row)}"
      end

      # @param name [Symbol] one of TABLE
      # @param value [Object]
      # @return [Object] the value
      # @raise [ArgumentError] when it cannot be one; the message says what can
      def check(name, value)
        case name
        when :bind             then Endpoint.parse(value)
        when :host             then Endpoint.parse(tcp(value, 0), transports: [:tcp])
        when :log_format       then LogFormat.named(value)
        when :port             then must(name, value, "a whole number from 0 to 65535") { value.is_a?(Integer) && value.between?(0, 65_535) }
        when :shutdown_timeout then must(name, value, "a number of seconds, 0 or more") { value.is_a?(Numeric) && value.real? && value >= 0 }
        when :quiet            then must(name, value, "true or false") { [true, false].include?(value) }
        else must(name, value, "a String") { value.is_a?(String) && !value.empty? }
        end
        value
      end

      # An address in `over` is instead of those in `base`, not beside them.
      #
      # @param base [Hash] settings
      # @param over [Hash] settings that win
      # @return [Hash]
      def merge(base, over)
        base = base.reject { |name, _| %i[bind host port].include?(name) } if over.key?(:bind)
        base = base.reject { |name, _| name == :bind } if over.key?(:host) || over.key?(:port)
        base.merge(over) { |name, old, new| name == :limits ? old.merge(new) : new }
      end

      # Where to listen: each :bind; and :host with :port, where one of them is given; or else the default, which is
      # this machine only in development and every address in other environments (as rackup has it).
      #
      # @param settings [Hash]
      # @param environment [String]
      # @param default_port [Integer] for an address without a port
      # @return [Array<Gyre::Endpoint>]
      # @raise [ArgumentError] for an address that cannot be read
      def endpoints(settings, environment, default_port: DEFAULT_PORT)
        addresses = Array(settings[:bind])
        host = settings[:host] || (environment == "development" ? "localhost" : "*")
        port = settings[:port] || default_port
        if addresses.empty? || settings[:host] || settings[:port]
          addresses += [tcp(host, port)]
        end
        addresses.map { |address| Endpoint.parse(address, port: port) }.uniq
      end

      # Development logs every request; elsewhere the app or a proxy usually does.
      #
      # @param environment [String]
      # @return [String]
      def default_log_format(environment)
        environment == "development" ? "common" : "none"
      end

      def tcp(host, port)
        host = "[#{host}]" if host.to_s.count(":") > 1 && !host.start_with?("[")
        "tcp://#{host}:#{port}"
      end

      def expected(row)
        case row.unit
        when :seconds then "a number of seconds above 0, or none"
        when :bytes   then "a number of bytes like 500, 64k or 10M#{", at least #{row.minimum}" if row.minimum.positive?}"
        else "a whole number, at least #{row.minimum}"
        end
      end

      def must(name, value, expected)
        yield || raise(ArgumentError, "#{name} must be #{expected}, got #{value.inspect}")
      end
      private_class_method :tcp, :expected, :must
    end
  end
end
