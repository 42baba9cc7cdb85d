# frozen_string_literal: true

# What `rackup -s gyre` and `rails server -u gyre` run: their options in, a Gyre::Web::Server out.
# lib/rackup/handler/gyre.rb and, for Rack 2, lib/rack/handler/gyre.rb name it for them. The
# middleware and the request log of a rackup are rackup's own.

require "did_you_mean"
require "gyre/web"
require "gyre/web/restart_file"

module Gyre
  module Web
    # Serves what rackup or Rails made.
    module Handler
      # What rackup and Rails hand over for their own purposes.
      FOREIGN = %i[
        AccessLog Host Port app binding builder caching config daemonize debug dev_caching early_hints environment heapfile include
        log_stdout log_to_stdout pid profile_mode profiler_output quiet require restart_cmd server ssl_cert ssl_key user_supplied_options
        using warn Logger DoNotReverseLookup
      ].freeze
      private_constant :FOREIGN

      # @param app [#call] a Rack app
      # @param options [Hash] :Host and :Port, and Gyre's own settings by name (`-O
      #   bind=unix:///run/app.sock`, `-O keep_alive_timeout=20`), as Strings or Symbols
      # @yield [Gyre::Web::Server] once it serves
      # @return [void]
      def self.run(app, **options, &block)
        out = $stdout
        log = Log.new(notices: (out unless options[:quiet]))
        unknown(options).each { |message| log.error(message) }
        server = Server.new(app, log: log, out: out, **settings(options))
        restart = false
        server.run do
          log.info(Banner.text(server, options[:environment]))
          watch_restart_file { restart = true and server.stop } if options[:restart_cmd]
          block&.call(server)
        end
        exec(options[:restart_cmd]) if restart
      end

      # What Rails prints at its start.
      #
      # @return [String]
      def self.to_s = "Gyre"

      # @return [Hash{String => String}] for `rackup -s gyre --help`
      def self.valid_options
        {
          "Host=HOST" => "where to listen (default: localhost)",
          "Port=PORT" => "where to listen (default: #{Settings::DEFAULT_PORT})",
          "bind=ADDRESS" => "instead: tcp://host:port, ssl://host:port?cert=PATH&key=PATH or unix:///path, several with commas between",
          "static=DIR" => "send its files before the app is asked, several with commas between",
          "sendfile=DIR" => "send its files when the app names them in X-Sendfile",
          "compress=true" => "compress responses for clients that take it",
          "log_format=FORMAT" => "#{LogFormat::NAMES.join(", ")} (default: none, rackup logs by itself)",
          "shutdown_timeout=SECONDS" => "what running requests get to finish (default: #{Settings::SHUTDOWN_TIMEOUT_S})"
        }.merge(HTTP::Limits::TABLE.to_h { |row| ["#{row.word}=#{row.unit.upcase}", "#{row.meaning} (default: #{row.default_text})"] })
      end

      # @return [Hash] keyword arguments for Gyre::Web::Server
      # @raise [ArgumentError] for a value that cannot be
      def self.settings(options)
        {
          bind: addresses(options),
          limits: limits(options),
          log_format: options[:log_format],
          shutdown_timeout: options[:shutdown_timeout],
          static: folders(options[:static]),
          sendfile: folders(options[:sendfile]),
          compress: (Settings.check(:compress, options[:compress].to_s == "true") if options[:compress])
        }.compact
      end

      # A newer rackup or Rails may pass further options of its own, so this warns and does not
      # refuse.
      #
      # @return [Array<String>]
      def self.unknown(options)
        known = valid_options.keys.map { |text| text[/\A\w+/] }
        names = options.keys.map(&:to_s).reject { |name| known.include?(name) || HTTP::Limits.find(name) || FOREIGN.include?(name.to_sym) }
        names.map do |name|
          near = DidYouMean::SpellChecker.new(dictionary: known).correct(name).first
          "the option #{name} is unknown, and does nothing#{"; did you mean #{near}?" if near}"
        end
      end

      def self.folders(text)
        text&.to_s&.split(",")
      end

      # In a task of its own, which ends with the server.
      def self.watch_restart_file
        file = RestartFile.new
        Task.current.async("restart file", transient: true) do
          file.wait
          yield
        end
      end

      def self.addresses(options)
        return options[:bind].to_s.split(",") if options[:bind]

        host = options[:Host] || "localhost"
        return [TLSSettings.endpoint(host, port: (options[:Port] || Settings::DEFAULT_PORT).to_i)] if host.include?("://")

        host = "[#{host}]" if host.count(":") > 1
        "tcp://#{host}:#{options[:Port] || Settings::DEFAULT_PORT}"
      end

      def self.limits(options)
        options.each_with_object({}) do |(name, value), limits|
          row = HTTP::Limits.find(name) or next
          limits[row.name] = row.read(value)
        rescue ArgumentError => error
          raise ArgumentError, "#{name}: #{error.message}"
        end
      end
      private_class_method :settings, :unknown, :addresses, :limits, :folders, :watch_restart_file
    end
  end
end
