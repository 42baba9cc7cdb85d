# frozen_string_literal: true

# The configuration file (config/gyre.rb): Ruby, with a word for each row of Web::SETTINGS. Read
# once by Gyre::CLI::Serve, before the app. Starts nothing and keeps only the settings.

require "gyre/errors"
require "gyre/web/settings"

module Gyre
  module Web
    # The file is unreadable or invalid: a line for each fault.
    class ConfigError < Error
      # Valid settings.
      attr_reader :settings

      # `settings`: the valid ones.
      def initialize(message, settings = {})
        super(message)
        @settings = settings
      end
    end

    # The file's words. It may contain any plain Ruby.
    #
    #   bind "tcp://0.0.0.0:80", "unix:///run/app.sock"
    #   log_format "json"
    #   keep_alive_timeout 20
    class Config
      # Default path; -C names another one.
      PATH = "config/gyre.rb"

      # Reads the file.
      def self.load(path)
        new(path).evaluate(File.read(path, encoding: Encoding::UTF_8)) # as Ruby reads a file, whatever the locale
      rescue SystemCallError => error
        raise ConfigError, "#{path}: the configuration cannot be read: #{error.class.new.message.downcase}"
      end

      # `over` takes precedence; its addresses replace those of `base`.
      def self.merge(base, over)
        base = base.reject { |name, _| %i[bind host port].include?(name) } if over.key?(:bind)
        base = base.reject { |name, _| name == :bind } if over.key?(:host) || over.key?(:port)
        base.merge(over)
      end

      # Messages contain the path.
      def initialize(path)
        @path = path
        @settings = {}
        @faults = []
      end

      # Returns the file's settings. Raises ConfigError.
      def evaluate(text)
        begin
          instance_eval(text, @path)
        rescue SyntaxError => error
          @faults << error.message
        rescue ScriptError, StandardError => error
          @faults << "#{place(error.backtrace_locations)}#{error.message} (#{error.class})"
        end
        @faults.empty? ? @settings : raise(ConfigError.new(@faults.join("\n"), @settings))
      end

      # @!group Words
      SETTINGS.reject { |row| %i[tls static sendfile].include?(row.name) }.each do |row|
        [row.word, *row.also].each do |name|
          next define_method(name) { |*values, &block| add(row, [*values, *block]) } if row.list

          define_method(name) { |value = true| at(row) { @settings[row.name] = row.check(value) } }
        end
      end

      # Adds a certificate for TLS addresses without their own.
      #
      #   tls cert: "example.pem", key: "example.key"
      #   tls "example.net", "*.example.net", cert: "net.pem", key: "net.key"
      #
      # Names are hosts (SNI); a certificate without names serves all others. `true` makes a
      # certificate for development.
      def tls(*names, **settings)
        return @settings[:tls] = true if settings.empty? && [[], [true]].include?(names)

        settings[:names] = names unless names.empty?
        @settings.delete(:tls) if @settings[:tls] == true
        add(SETTINGS[:tls], [settings])
      end

      # Add a folder of files: sent without the app; or named by the app in X-Sendfile, or with
      # `at:` in X-Accel-Redirect.
      %i[static sendfile].each do |name|
        define_method(name) { |path, **options| at(SETTINGS[name]) { add(SETTINGS[name], [Folder.parse(path, **options)]) } }
      end
      # @!endgroup

      private

      def add(row, values)
        at(row) do
          raise ArgumentError, "must be #{row.expected}" if values.empty?

          @settings[row.name] = [*@settings[row.name], *row.check(values)]
        end
      end

      def at(row)
        yield
      rescue ArgumentError => error
        refuse("#{row.word}: #{error.message}")
      end

      def method_missing(name, *_arguments)
        SETTINGS.fetch(name.to_s.delete_suffix("!"))
      rescue ArgumentError => error
        refuse("#{name}: #{error.message}")
      end

      def respond_to_missing?(_name, _all = false) = false

      # Continues, to report all faults together.
      def refuse(message)
        @faults << "#{place(caller_locations)}#{message}"
        nil
      end

      def place(locations)
        location = locations&.find { |each| each.path == @path }
        location ? "#{@path}:#{location.lineno}: " : "#{@path}: "
      end
    end
  end
end
