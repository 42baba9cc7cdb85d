# frozen_string_literal: true

# The configuration file (config/gyre.rb): Ruby, with a word for each setting. Read once by
# Gyre::CLI::Serve, before the app; flags win over it. It starts nothing and keeps nothing but the
# settings.

require "did_you_mean"
require "gyre/errors"
require "gyre/web/cluster/hooks"
require "gyre/web/settings"

module Gyre
  module Web
    # The file cannot be read, or is wrong: a line for each fault, which begins with file and line.
    class ConfigError < Error; end

    # The words of the file. A path, a block or plain text that is Ruby may stand in it as well.
    #
    #   bind "tcp://0.0.0.0:80"
    #   bind "unix:///run/app.sock"
    #   log_format "json"
    #   keep_alive_timeout 20
    class Config
      # Where it is, unless -C names another one.
      PATH = "config/gyre.rb"

      # @param path [String]
      # @return [Hash] settings, as {Settings} has them
      # @raise [ConfigError]
      def self.load(path)
        new(path).evaluate(File.read(path))
      rescue Errno::ENOENT
        raise ConfigError, "there is no #{path}, the configuration that was asked for"
      rescue SystemCallError => error
        raise ConfigError, "#{path}: the configuration cannot be read: #{error.class.new.message.downcase}"
      end

      # @param path [String] what messages call the file
      def initialize(path)
        @path = path
        @settings = {}
        @faults = []
      end

      # @param text [String] Ruby
      # @return [Hash] settings
      # @raise [ConfigError]
      def evaluate(text)
        begin
          instance_eval(text, @path)
        rescue SyntaxError => error
          @faults << error.message
        rescue ScriptError, StandardError => error
          @faults << "#{place(error.backtrace_locations)}#{error.message} (#{error.class})"
        end
        @faults.empty? ? @settings : raise(ConfigError, @faults.join("\n"))
      end

      # @!group Words
      (Settings::TABLE.map(&:name) - Settings::LISTS - %i[tls port]).each do |name|
        define_method(name) { |value = true| set(name, value) }
      end

      # Sets the port, and the host as Puma's configuration has it.
      #
      # @param number [Integer, String]
      # @param name [String, nil]
      def port(number, name = nil)
        set(:port, number)
        set(:host, name) if name
      end

      # Adds an address to listen on.
      #
      # @param addresses [Array<String>] as {Gyre::Endpoint.parse} reads them
      def bind(*addresses)
        addresses.each { |address| (@settings[:bind] ||= []) << check(:bind) { Settings.check(:bind, address) } }
      end

      # Adds a certificate for addresses with TLS that name none of their own.
      #
      #   tls cert: "example.pem", key: "example.key"
      #   tls "example.net", "*.example.net", cert: "net.pem", key: "net.key"
      #   tls "example.net", "*.example.net", cert: "net-rsa.pem", key: "net-rsa.key" # the first has an ECDSA key
      #
      # @param names [Array<String>] the hosts that it is for (SNI); the one without names is for
      #   all others. `true` alone: a certificate for development
      # @param settings [Hash] as {TLSSettings::TABLE} has them
      def tls(*names, **settings)
        return @settings[:tls] = true if settings.empty? && [[], [true]].include?(names)

        settings[:names] = names unless names.empty?
        all = @settings[:tls].is_a?(Array) ? @settings[:tls] : []
        @settings[:tls] = [*all, *check(:tls) { Settings.check(:tls, [settings]) }]
      end

      # Adds an address with TLS, as Puma's configuration has it.
      #
      # @param host [String]
      # @param port [Integer, String]
      # @param settings [Hash] as {TLSSettings::TABLE} has them
      def ssl_bind(host, port, settings = {})
        check(:ssl_bind) do
          plain = Endpoint.parse("tcp://#{host.to_s.count(":") > 1 && !host.start_with?("[") ? "[#{host}]" : host}:#{port}")
          (@settings[:bind] ||= []) << TLSSettings.endpoint(plain.with(tls: settings))
        end
      end

      # Adds a folder whose files are sent before the app is asked.
      #
      # @param path [String]
      # @param options (see Gyre::HTTP::Files::Root#initialize)
      def static(path, **options) = add_folder(:static, path, options)

      # Adds a folder whose files the app may name in X-Sendfile, or with `at:` in X-Accel-Redirect.
      #
      # @param path [String]
      # @param options (see Gyre::HTTP::Files::Root#initialize)
      def sendfile(path, **options) = add_folder(:sendfile, path, options)

      # Adds proxies whose X-Forwarded headers are believed.
      #
      # @param ranges [Array<String>] as {TrustedProxies.ranges} reads them
      def trusted_proxy(*ranges)
        ranges.each { |range| (@settings[:trusted_proxy] ||= []) << check(:trusted_proxy) { Settings.check(:trusted_proxy, range) } }
      end

      # Adds headers that those proxies write, instead of the usual two.
      #
      # @param names [Array<String>] of {TrustedProxies::HEADERS}
      def forwarded_header(*names)
        names.each { |name| (@settings[:forwarded_header] ||= []) << check(:forwarded_header) { Settings.check(:forwarded_header, name) } }
      end

      # Adds an address for /metrics and /status.
      #
      # @param addresses [Array<String>] as {ControlServer.endpoint} reads them
      def metrics(*addresses)
        addresses.each { |address| (@settings[:metrics] ||= []) << check(:metrics) { Settings.check(:metrics, address) } }
      end

      # Adds programs that run beside the workers.
      #
      # @param commands [Array<String>] words as a shell has them
      def beside(*commands)
        commands.each { |command| (@settings[:beside] ||= []) << check(:beside) { Settings.check(:beside, command) } }
      end

      HTTP::Limits::TABLE.each do |row|
        word = ->(value) { (@settings[:limits] ||= {})[row.name] = check(row.word) { row.read(value) } }
        [row.name, row.word.to_sym].uniq.each { |name| define_method(name, &word) }
      end

      Cluster::Hooks::TABLE.each do |row|
        [row.name, *row.aliases].each { |name| define_method(name) { |&block| hook(name, block) } }
      end
      # @!endgroup

      private

      def hook(name, block)
        block or return refuse("#{name}: must have a block, which runs #{Cluster::Hooks.find(name).meaning}")
        (@settings[:hooks] ||= Cluster::Hooks.new).add(name, block)
      end

      def set(name, value) = @settings[name] = check(name) { Settings.check(name, value) }

      def add_folder(name, path, options)
        (@settings[name] ||= []) << check(name) { Folder.parse(path, **options) }
      end

      def check(name)
        yield
      rescue ArgumentError => error
        refuse("#{name}: #{error.message}")
      end

      def method_missing(name, *_arguments)
        hint = Settings::FOREIGN[name.to_s.delete_suffix("!").to_sym] || nearest(name)
        refuse("#{name} is not a setting#{hint ? "; #{hint}" : ". There are: #{Settings.names.join(", ")}"}")
      end

      def respond_to_missing?(_name, _all = false)
        false
      end

      def nearest(name)
        names = DidYouMean::SpellChecker.new(dictionary: Settings.names).correct(name)
        "did you mean #{names.first}?" unless names.empty?
      end

      # The rest is read all the same, so that all faults are reported at once.
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
