# frozen_string_literal: true

# Runs a Gyre::Web::Server for `rackup -s gyre` and `rails server -u gyre`. Registered by
# lib/rackup/handler/gyre.rb and, for Rack 2, lib/rack/handler/gyre.rb.

require "gyre/web"
require "gyre/web/rack_command"
require "gyre/web/restart_file"

module Gyre
  module Web
    # Serves apps of rackup and Rails.
    module Handler
      # Options of rackup and Rails that cause no warning.
      FOREIGN = %i[
        AccessLog Host Port app binding builder caching config daemonize debug dev_caching environment heapfile include
        log_stdout log_to_stdout pid profile_mode profiler_output quiet require restart_cmd server ssl_cert ssl_key user_supplied_options
        using warn Logger DoNotReverseLookup
      ].freeze
      # The settings that rackup's -O takes.
      OPTIONS = Gyre::Settings.new(SERVER_SETTINGS.groups.merge("Limits" => HTTP::Limits::TABLE.to_a))
      private_constant :FOREIGN

      # Settings of config/gyre.rb hold where no option sets another value. If they ask for workers
      # (RackCommand), the process becomes `gyre serve`.
      # @param app [#call] a Rack app
      # @param options [Hash] :Host, :Port and Gyre's settings (`-O keep_alive_timeout=20`)
      # @yield [Gyre::Web::Server] once it serves
      # @return [void]
      # @raise [ConfigError] for an invalid config/gyre.rb
      def self.run(app, **options, &block)
        command = RackCommand.new(options)
        command.serve if command.workers?
        Thread.current.priority = Offload::PRIORITY
        out = $stdout
        out.sync = true # what the app prints is to be seen at once, also through a pipe
        log = ServerLog.new(notices: (out unless options[:quiet]))
        unknown(options).each { |message| log.error(message) }
        command.notes.each { |message| log.info(message) }
        server = Server.new(app, log: log, out: out, **settings(options, command))
        restart = false
        server.run do
          log.info(Banner.text(server, options[:environment]))
          RestartFile.watch { restart = true and server.stop } if options[:restart_cmd]
          block&.call(server)
        end
        exec(options[:restart_cmd]) if restart
      end

      # Printed by Rails.
      # @return [String]
      def self.to_s = "Gyre"

      # @return [Hash{String => String}] for `rackup -s gyre --help`
      def self.valid_options
        {
          "Host=HOST" => "where to listen (default: localhost)",
          "Port=PORT" => "where to listen (default: #{Addresses::DEFAULT_PORT})",
          "bind=ADDRESS" => "instead: tcp://host:port, ssl://host:port?cert=PATH&key=PATH or unix:///path, several with commas between",
          **OPTIONS.to_h { |row| ["#{row.word}=#{row.boolean? ? "true" : row.argument}", meaning(row)] }
        }
      end

      # @return [Hash] keyword arguments for Gyre::Web::Server
      # @raise [ArgumentError] for an invalid value
      def self.settings(options, command)
        given = options.select { |name, _| OPTIONS[name] }
                       .to_h { |name, value| [name, OPTIONS[name].list && value.is_a?(String) ? value.split(",") : value] }
        settings = command.file.slice(*OPTIONS.names).merge(OPTIONS.read(given))
        settings[:log_format] ||= "common" if settings.key?(:access_log)
        limits, others = settings.partition { |name, _| HTTP::Limits::TABLE[name] }.map(&:to_h)
        { bind: command.addresses, tls: command.file[:tls], limits: limits, **others }
      end

      def self.meaning(row)
        default = row.name == :log_format ? "none, rackup logs by itself" : row.default_text
        "#{row.meaning}#{", several with commas between" if row.list}#{" (default: #{default})" if default}"
      end

      # Only warns of unknown options, because newer rackup or Rails may have further ones.
      # @return [Array<String>]
      def self.unknown(options)
        names = options.keys - %i[bind] - FOREIGN
        names.reject { |name| OPTIONS[name] }.map do |name|
          ["the option #{name} is unknown, and does nothing", Gyre::Settings.nearest(name.to_s, ["bind", *OPTIONS.words])].compact.join("; ")
        end
      end

      private_class_method :settings, :meaning, :unknown
    end
  end
end
