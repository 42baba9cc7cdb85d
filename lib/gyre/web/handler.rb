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
        AccessLog Host Port app binding builder caching config daemonize debug dev_caching environment heapfile include
        log_stdout log_to_stdout pid profile_mode profiler_output quiet require restart_cmd server ssl_cert ssl_key user_supplied_options
        using warn Logger DoNotReverseLookup
      ].freeze
      # Settings that Server#initialize takes by their names; a list has commas between.
      LISTS = %i[static sendfile metrics trusted_proxy forwarded_header].freeze
      FLAGS = %i[compress request_id early_hints extended_connect watchdog].freeze
      OTHERS = %i[compress_minimum log_format access_log health_path ready_path cancel_when_client_gone shutdown_timeout].freeze
      private_constant :FOREIGN, :LISTS, :FLAGS, :OTHERS

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
          **(LISTS + FLAGS + OTHERS).to_h { |name| ["#{name}=#{FLAGS.include?(name) ? "true" : "VALUE"}", meaning(name)] }
        }.merge(HTTP::Limits::TABLE.to_h { |row| ["#{row.word}=#{row.unit.upcase}", "#{row.meaning} (default: #{row.default_text})"] })
      end

      # @return [Hash] keyword arguments for Gyre::Web::Server
      # @raise [ArgumentError] for a value that cannot be
      def self.settings(options)
        given = options.slice(*LISTS, *FLAGS, *OTHERS).compact
        settings = given.to_h { |name, value| [name, setting(name, value)] }
        settings[:log_format] ||= "common" if settings.key?(:access_log)
        { bind: addresses(options), limits: limits(options), **settings }
      end

      # @return [Object] a value of the configuration file, or its text on a command line
      def self.setting(name, value)
        return (value.is_a?(Array) ? value : value.to_s.split(",")).map { |each| Settings.check(name, each) } if LISTS.include?(name)

        value = { "true" => true, "false" => false }.fetch(value.to_s, value) if FLAGS.include?(name)
        Settings.check(name, value)
      rescue ArgumentError => error
        raise ArgumentError, "#{name}: #{error.message}"
      end

      def self.meaning(name)
        meaning = Settings::TABLE.find { |row| row.name == name }.meaning
        meaning = meaning.delete_prefix("true: ").sub("may be given several times", "several with commas between")
        case name
        when :log_format then "#{meaning} (default: none, rackup logs by itself)"
        when :shutdown_timeout then "#{meaning} (default: #{Settings::SHUTDOWN_TIMEOUT_S})"
        else meaning
        end
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
      private_class_method :settings, :setting, :meaning, :unknown, :addresses, :limits, :watch_restart_file
    end
  end
end
