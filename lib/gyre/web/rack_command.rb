# frozen_string_literal: true

# Combines the options of `bin/rails server` and rackup with config/gyre.rb. In development the
# server runs in their process, so that Rails reloads code there. Elsewhere `bin/rails server`
# becomes `gyre serve` before it loads the app, and rackup does if there are to be workers. Used by
# Handler.

require "gyre/web/config"
require "rbconfig"

module Gyre
  module Web
    # The options of one start.
    class RackCommand
      PROGRAM = File.expand_path("../../../exe/gyre", __dir__)
      LIBRARY = File.expand_path("../..", __dir__)
      # What rackup passes if the user has named no address.
      USUAL = { Host: %w[localhost 0.0.0.0], Port: [Addresses::DEFAULT_PORT] }.freeze
      ADDRESS = %i[bind host port].freeze
      PROCESSES = "config/gyre.rb: not applied in this process: %s. `gyre serve` applies all, as does `bin/rails server` outside of development"
      JOBS = "SOLID_QUEUE_IN_PUMA starts bin/jobs with workers only, outside of development: start bin/jobs beside this server"

      # Prepended to Rails::Server.
      module Rails
        def start(*)
          RackCommand.new(options).serve if server.equal?(Handler) && options[:environment] != "development"
          super
        end

        # Gyre prints its own addresses.
        def served_url = (super unless server.equal?(Handler))
      end

      # @param options [Hash] of rackup or Rails
      def initialize(options)
        @options = options
        @environment = options[:environment] || "development"
      end

      # Returns the settings of config/gyre.rb.
      # @raise [ConfigError]
      def file = @file ||= File.file?(Config::PATH) ? Config.load(Config::PATH) : {}

      # True if `gyre serve` would make workers for an app that rackup has loaded from a file.
      def workers?
        return false if development? || @options[:builder] || !File.file?(@options[:config].to_s)

        (file[:workers] || ENV["WEB_CONCURRENCY"]).to_s.match?(/\A(?:auto|0*[1-9]\d*)\z/) || file.key?(:beside) || jobs?
      end

      # Becomes `gyre serve`: the process keeps its id, signals and environment. A port that the
      # user has not given is below the file's addresses and those of TLS_DOMAIN.
      def serve
        environment = { "PORT" => @options[:Port].to_s } if @options[:Port] && (given?(:Port) || ENV["TLS_DOMAIN"].to_s.empty?)
        Process.daemon(true) if @options[:daemonize]
        exec(environment || {}, RbConfig.ruby, "-I", LIBRARY, PROGRAM, "serve", *flags)
      end

      # Returns the addresses: those of the options, or of the file if the user has named none.
      def addresses
        named = @options[:bind] ? @options[:bind].to_s.split(",") : []
        return named unless named.empty?
        return Addresses.listen(file, @environment, default_port: port) if !given?(:Host) && !given?(:Port) && file.keys.intersect?(ADDRESS)

        host = @options[:Host] || "localhost"
        Addresses.secure([Addresses.endpoint(host.include?("://") ? host : Addresses.tcp(host, port), port: port)], file[:tls])
      end

      # Returns lines for the log about settings that need more than one process.
      def notes
        words = file.keys - ADDRESS - %i[tls environment rackup quiet] - Handler::OPTIONS.names
        [(format(PROCESSES, words.join(", ")) if words.any?), (JOBS if jobs?)].compact
      end

      private

      def development? = @environment == "development"

      def jobs? = !ENV["SOLID_QUEUE_IN_PUMA"].to_s.empty?

      def port = (@options[:Port] || Addresses::DEFAULT_PORT).to_i

      # Rails tells what the user has given, rackup does not.
      def given?(name)
        supplied = @options[:user_supplied_options] or return @options.key?(name) && !USUAL[name].include?(@options[name])

        supplied.include?(name)
      end

      def flags
        host = @options[:Host].to_s if given?(:Host)
        url = host if host&.include?("://")
        values = { environment: @environment, bind: url, host: (host unless url), port: (port if given?(:Port) && !url), pidfile: @options[:pid] }
        words = values.compact.flat_map { |name, value| ["--#{name}", value.to_s] }
        @options[:bind].to_s.split(",").each { |address| words.push("--bind", address) }
        [*words, *settings, @options[:config] || "config.ru"]
      end

      # Returns flags for the settings of rackup's -O.
      def settings
        @options.compact.flat_map do |name, value|
          row = Handler::OPTIONS[name] or next []
          next [value.to_s == "false" ? row.flag.sub("--", "--no-") : row.flag] if row.boolean?

          (row.list ? value.to_s.split(",") : [value.to_s]).flat_map { |each| [row.flag, each] }
        end
      end
    end

    ::Rails::Server.prepend(RackCommand::Rails) if defined?(::Rails::Server)
  end
end
