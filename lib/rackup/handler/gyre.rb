# frozen_string_literal: true

# What makes `rackup -s gyre` and `rails server -u gyre` work: both look for this file by its path. It translates their
# options into a Gyre::Web::Server's. The middleware and the request log of a rackup are rackup's own.

require "gyre/web"

module Rackup
  module Handler
    # Serves what rackup or Rails made.
    module Gyre
      # @param app [#call] a Rack app
      # @param options [Hash] :Host and :Port, and Gyre's own settings by name (`-O bind=unix:///run/app.sock`,
      #   `-O keep_alive_timeout=20`), as Strings or Symbols
      # @yield [Gyre::Web::Server] once it serves
      # @return [void]
      def self.run(app, **options, &block)
        out = $stdout
        log = ::Gyre::Web::Log.new(notices: (out unless options[:quiet]))
        server = ::Gyre::Web::Server.new(app, log: log, out: out, **settings(options))
        server.run do
          log.info(::Gyre::Web::Banner.text(server, options[:environment]))
          block&.call(server)
        end
      end

      # @return [Hash{String => String}] for `rackup -s gyre --help`
      def self.valid_options
        names = ::Gyre::Web::Settings
        {
          "Host=HOST" => "where to listen (default: localhost)",
          "Port=PORT" => "where to listen (default: #{names::DEFAULT_PORT})",
          "bind=ADDRESS" => "instead: tcp://host:port or unix:///path, several with commas between",
          "log_format=FORMAT" => "#{::Gyre::Web::LogFormat::NAMES.join(", ")} (default: none, rackup logs by itself)",
          "shutdown_timeout=SECONDS" => "what running requests get to finish (default: #{names::SHUTDOWN_TIMEOUT_S})"
        }.merge(names.limits.to_h { |row| ["#{names.short_name(row)}=#{row.unit.upcase}", "#{row.meaning} (default: #{row.default})"] })
      end

      # @return [Hash] keyword arguments for Gyre::Web::Server
      # @raise [ArgumentError] for a value that cannot be
      def self.settings(options)
        {
          bind: addresses(options),
          limits: limits(options),
          log_format: options[:log_format],
          shutdown_timeout: options[:shutdown_timeout] && Float(options[:shutdown_timeout])
        }.compact
      end

      def self.addresses(options)
        return options[:bind].to_s.split(",") if options[:bind]

        host = options[:Host] || "localhost"
        host = "[#{host}]" if host.count(":") > 1
        "tcp://#{host}:#{options[:Port] || ::Gyre::Web::Settings::DEFAULT_PORT}"
      end

      def self.limits(options)
        options.each_with_object({}) do |(name, value), limits|
          row = ::Gyre::Web::Settings.limit(name) or next
          limits[row.name] = value.is_a?(String) ? ::Gyre::Web::Settings.read_limit(row, value) : value
        end
      end
      private_class_method :settings, :addresses, :limits
    end

    register :gyre, Gyre if respond_to?(:register)
  end
end
