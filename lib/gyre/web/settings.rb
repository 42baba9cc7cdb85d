# frozen_string_literal: true

# What can be set for a web server, with defaults and checks: one list for the command line, the
# configuration file and Gyre::Web::Server. The limits of HTTP are in it too, straight from
# Gyre::HTTP::Limits::TABLE. It reads no file and starts nothing.

require "gyre/net/values"
require "gyre/http/limits"
require "gyre/web/folder"
require "gyre/web/foreign_words"
require "gyre/web/control_server"
require "gyre/web/log_format"
require "gyre/web/tls_settings"
require "gyre/web/trusted_proxies"
require "shellwords"

module Gyre
  module Web
    # Settings are a Hash: the names below, and :limits with a Hash of its own.
    module Settings
      DEFAULT_PORT = 9292
      SHUTDOWN_TIMEOUT_S = 30
      COMPRESS_MINIMUM_BYTES = 1024
      WORKER_TIMEOUT_S = 60

      # A setting beside the limits: its name, its type (see {check}) and one line that describes
      # it.
      Row = Struct.new(:name, :type, :meaning)

      TABLE = [
        Row.new(:bind, :address, "an address to listen on; may be given several times"),
        Row.new(:host, :host, "the host part of one more address"),
        Row.new(:port, :port, "the port part of one more address"),
        Row.new(:tls, :tls, "certificates for addresses with TLS"),
        Row.new(:environment, :text, "development, production, …"),
        Row.new(:rackup, :text, "the file that makes the app"),
        Row.new(:static, :folder, "a folder whose files are sent before the app is asked; may be given several times"),
        Row.new(:sendfile, :folder, "a folder whose files the app may name in X-Sendfile; may be given several times"),
        Row.new(:compress, :flag, "true: compress responses for clients that take it"),
        Row.new(:compress_minimum, :bytes, "the smallest body that is worth compressing"),
        Row.new(:log_format, :log_format, "the access log: #{LogFormat::NAMES.join(", ")}, or fields of one's own"),
        Row.new(:access_log, :text, "the file of the access log; HUP opens it again"),
        Row.new(:request_id, :flag, "true: each request has an X-Request-Id: a valid one of the client's, or a new one"),
        Row.new(:trusted_proxy, :proxy, "proxies whose X-Forwarded headers are believed; may be given several times"),
        Row.new(:forwarded_header, TrustedProxies::HEADERS,
                "a header that those proxies write; may be given several times; by default #{TrustedProxies::USUAL.join(" and ")}"),
        Row.new(:early_hints, :flag, "true: apps may send 103 Early Hints; behind nginx before 1.29 they break responses"),
        Row.new(:extended_connect, :flag, "true: in HTTP/2, clients may open WebSockets by CONNECT (RFC 8441), which the app has to serve"),
        Row.new(:metrics, :control_address, "an address for /metrics and /status; may be given several times"),
        Row.new(:health_path, :url_path, "a path that the server answers by itself, with 200"),
        Row.new(:ready_path, :url_path, "the same, but 503 while it stops and while its queue is full"),
        Row.new(:watchdog, :flag, "true: the log has requests that hold up all others, and where"),
        Row.new(:cancel_when_client_gone, HTTP::DEPARTURES,
                "what cancels a request whose client has left: none; reset, of its connection; closed, also its end"),
        Row.new(:shutdown_timeout, :seconds, "seconds that running requests get to finish after INT or TERM"),
        Row.new(:pidfile, :text, "a file that holds the process id while the server runs"),
        Row.new(:quiet, :flag, "true: print nothing but errors"),
        Row.new(:workers, :processes, "worker processes; auto: one for each processor; 0: one process does it all"),
        Row.new(:worker_timeout, :span, "seconds after which a worker that gives no sign is killed and replaced"),
        Row.new(:worker_boot_timeout, :span, "seconds from a worker's fork until it serves, and for the app to be loaded"),
        Row.new(:worker_memory_limit, :bytes, "resident memory beyond which a worker is replaced, after its requests"),
        Row.new(:beside, :command, "a program that runs beside the workers, and is started again when it ends; may be given several times"),
        Row.new(:restart_file, :text, "a file that restarts the workers as USR1 does when it is touched"),
        Row.new(:state, :text, "a file for `gyre ctl` and `gyre top`: process, addresses, control socket; with workers tmp/gyre.state"),
        Row.new(:user, :text, "the user that the processes become once the sockets are open"),
        Row.new(:group, :text, "the group that they become")
      ].each(&:freeze).freeze

      # Settings that may be given several times.
      LISTS = %i[bind static sendfile metrics trusted_proxy forwarded_header beside].freeze

      # Names in other servers, and what to write here.
      FOREIGN = ForeignWords::ANSWERS

      module_function

      # @return [Array<Symbol>] every name, limits without their unit
      def names = TABLE.map(&:name) + HTTP::Limits::TABLE.map { |row| row.word.to_sym }

      # @param name [Symbol] of a row of TABLE
      # @param value [Object] a value, or its text on a command line
      # @return [Object] the value, converted
      # @raise [ArgumentError] when it cannot be one; the message has what is expected
      def check(name, value)
        type = TABLE.find { |row| row.name == name }.type
        case type
        when :folder then Folder.parse(value)
        when :log_format then LogFormat.check(value)
        when :proxy then TrustedProxies.ranges(value) && value
        when :control_address then ControlServer.endpoint(value) && value
        when :url_path then url_path(value)
        when :command then command(value)
        when :host then Endpoint.parse(tcp(value, 0), transports: [:tcp]) && value
        when :address then TLSSettings.endpoint(value) && value
        when :tls then value == true ? value : Array(value).map { |each| TLSSettings.certificate(each) }
        else Values.check(type, value)
        end
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

      # Where to listen: each :bind; and :host with :port, where one of them is given; or else the
      # default, which is this machine only in development and every address in other environments
      # (as rackup has it).
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
        TLSSettings.endpoints(addresses.map { |address| TLSSettings.endpoint(address, port: port) }, settings[:tls]).uniq
      end

      # Development logs every request; elsewhere the app or a proxy usually does.
      #
      # A file for it asks for it, too.
      #
      # @param environment [String]
      # @param settings [Hash]
      # @return [String]
      def default_log_format(environment, settings = {})
        return "common" if settings[:access_log]

        environment == "development" && !settings[:quiet] ? "common" : "none"
      end

      def tcp(host, port)
        host = "[#{host}]" if host.to_s.count(":") > 1 && !host.start_with?("[")
        "tcp://#{host}:#{port}"
      end

      def url_path(value)
        return value if value.is_a?(String) && value.match?(%r{\A/[^?#\s]*\z})

        raise ArgumentError, "must be a path like /up, not #{value.inspect[0, 80]}"
      end

      def command(value)
        return value if value.is_a?(String) && Shellwords.split(value).any?

        raise ArgumentError, "must be a command like \"bin/jobs\", not #{value.inspect[0, 80]}"
      end

      private_class_method :tcp, :url_path, :command
    end
  end
end
