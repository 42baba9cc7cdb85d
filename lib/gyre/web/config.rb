# frozen_string_literal: true

# Reads the configuration file (config/gyre.rb): Ruby code with a word for each row of
# Web::SETTINGS. Used once by Gyre::CLI::Serve, before the app is loaded. Starts nothing.

require "gyre/web/settings"

module Gyre
  module Web
    # The configuration file is unreadable or invalid. The message has a line for each fault.
    class ConfigError < Error
      # The file's valid settings.
      attr_reader :settings

      def initialize(message, settings = {})
        super(message)
        @settings = settings
      end
    end

    # Defines the file's words as methods. The file may contain any Ruby code.
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

      # Merges settings. `over` takes precedence; its addresses replace those of `base`.
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

          define_method(name) { |value = true, &block| at(row) { @settings[row.name] = row.check(block || value) } }
        end
      end

      # Adds a certificate for TLS addresses that have none of their own.
      #
      #   tls cert: "example.pem", key: "example.key"
      #   tls "example.net", "*.example.net", cert: "net.pem", key: "net.key"
      #
      # Names are host names (SNI). A certificate without names serves all other hosts. `true` makes
      # a certificate for development.
      def tls(*names, **settings)
        return @settings[:tls] = true if settings.empty? && [[], [true]].include?(names)

        settings[:names] = names unless names.empty?
        @settings.delete(:tls) if @settings[:tls] == true
        add(SETTINGS[:tls], [settings])
      end

      # `static` adds a folder whose files are sent without calling the app. `sendfile` adds a
      # folder whose files the app names in X-Sendfile, or, if `at:` is given, in X-Accel-Redirect.
      # `static false` leaves Rails' public folder to the app.
      %i[static sendfile].each do |name|
        define_method(name) do |path, **options|
          at(SETTINGS[name]) { path == false ? @settings[name] = [] : add(SETTINGS[name], [Folder.parse(path, **options)]) }
        end
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

      # Records a fault and continues, so that all faults are reported together.
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
