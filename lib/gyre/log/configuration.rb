# frozen_string_literal: true

# The settings of `gyre log`: Analogger's YAML as it is, with keys of ours beside (Gyre::Log::Configuration::Keys). The command
# reads it before anything starts, and gives Gyre::Log::Server its keyword settings. All mistakes are told at once, each with its
# line; it opens nothing but the file itself and the file of the key, and shows no secret.

require "gyre/errors"
require "gyre/log/limits"
require "gyre/log/configuration/document"
require "gyre/log/configuration/reader"

module Gyre
  module Log
    # What one server is to do. Immutable but for {#merge}, which answers a new one.
    #
    #   configuration = Gyre::Log::Configuration.load("log.yml")
    #   Gyre::Log::Server.new(**configuration.settings).run
    class Configuration
      # The file is wrong; each line of the message is a mistake: file:line: key: what to do.
      class Invalid < Error
        # @return [Array<String>]
        attr_reader :mistakes

        # @param mistakes [Array<String>]
        def initialize(mistakes)
          @mistakes = mistakes
          super(mistakes.join("\n"))
        end
      end

      DEFAULT_HOST = "127.0.0.1"
      DEFAULT_PORT = Checks::DEFAULT_PORT
      DEFAULT_INTERVAL_S = 1
      DEFAULT_SYNC_INTERVAL_S = 60
      # Where messages go when nothing at all is configured; in a folder of that name it is a file.
      DEFAULT_LOG = "log"
      DEFAULT_LOG_IN_FOLDER = File.join("log", "default.log")

      # @return [Hash{Symbol => Object}] what is said, by the names of Keys
      attr_reader :values
      # @return [Array<String>] what works, but perhaps not as meant
      attr_reader :notices

      class << self
        # @param path [String]
        # @param places [Boolean] whether the files and folders that it names have to be there, as they do for the server
        # @return [Configuration]
        # @raise [Invalid]
        def load(path, places: true)
          parse(File.read(path, encoding: Encoding::UTF_8), path, places: places)
        rescue SystemCallError => error
          raise Invalid, ["#{path}: the configuration cannot be read: #{error.class.new.message.downcase}"]
        end

        # @param text [String] YAML
        # @param path [String] what it is called in messages
        # @param places [Boolean] see {load}
        # @return [Configuration]
        # @raise [Invalid]
        def parse(text, path = "log.yml", places: false)
          raise Invalid, ["#{path}: is not in UTF-8"] unless text.valid_encoding?

          reader = Reader.new(limits: Limits::TABLE, places: places)
          document = Document.new(text) { |line, key, message| reader.wrong(line, key, message) }
          values = document.root ? reader.read(document.root) : {}
          reader.wrong(1, nil, "says nothing: write at least one key, as in: port: 6766") if document.root.nil? && reader.mistakes.empty?
          raise Invalid, told(reader.mistakes, path) if reader.mistakes.any?

          new(values, path: path, notices: told(reader.notices, path))
        end

        # Checks one value that is not from the file.
        #
        # @param name [Symbol] a key of the file's top
        # @param value [Object]
        # @param places [Boolean] see {load}
        # @return [Object] it, as {#values} has it
        # @raise [ArgumentError] the message says what is expected
        def check(name, value, places: false)
          key = Keys::TOP.find { |row| row.name == name.to_s }
          checked = Checks.public_send(key.check, Node.new(:scalar, value, 0, value.to_s))
          if places
            Checks.needed(key.needs, checked) if key.needs
            Checks.writable(checked) if key.needs == :folder
          end
          checked
        end

        private

        def told(remarks, path)
          remarks.sort_by.with_index { |remark, index| [remark.line, index] }.map { |remark| remark.to_s(path) }.uniq
        end
      end

      # @param values [Hash{Symbol => Object}] checked ones, by the names of Keys
      # @param path [String, nil] the file that they come from
      # @param notices [Array<String>]
      def initialize(values = {}, path: nil, notices: [])
        @values = values.freeze
        @path = path
        @notices = notices.freeze
        freeze
      end

      # @param over [Hash{Symbol => Object}] values that win; a host or port is instead of the file's bind, a bind instead of its host
      #   and port, a key instead of its key_file
      # @return [Configuration]
      def merge(over)
        base = values
        base = base.reject { |name, _| name == :bind } if over.key?(:host) || over.key?(:port)
        base = base.reject { |name, _| %i[host port].include?(name) } if over.key?(:bind)
        base = base.reject { |name, _| %i[key key_file].include?(name) } if over.key?(:key) || over.key?(:key_file)
        Configuration.new(base.merge(over), path: @path, notices: notices)
      end

      # @return [Array<String>] addresses to listen on for Analogger's clients and ours
      def addresses
        return values[:bind] if values[:bind]

        host = values.fetch(:host, DEFAULT_HOST)
        host = "[#{host}]" if host.count(":") > 1 && !host.start_with?("[")
        ["tcp://#{host}:#{values.fetch(:port, DEFAULT_PORT)}"]
      end

      # @return [String] Analogger writes to STDOUT when no file is named; without any configuration it is ./log
      def default_log
        values.fetch(:default_log) do
          next "STDOUT" if @path

          File.directory?(DEFAULT_LOG) ? DEFAULT_LOG_IN_FOLDER : DEFAULT_LOG
        end
      end

      # @return [String, nil] what clients must send; nil admits clients that send none
      # @raise [Invalid] when the file of the key cannot be read, or is empty
      def key
        return values[:key] unless values[:key_file]

        text = File.read(values[:key_file], encoding: Encoding::BINARY).chomp
        text.empty? ? raise(Invalid, ["#{values[:key_file]}: holds no key; put it on the first line"]) : text
      rescue SystemCallError => error
        raise Invalid, ["#{values[:key_file]}: the key cannot be read: #{error.class.new.message.downcase}"]
      end

      # @return [Boolean]
      def daemonize?
        values.fetch(:daemonize, false)
      end

      # @return [String, nil]
      def pidfile
        values[:pidfile]
      end

      # @return [Hash{Symbol => Object}] keyword arguments for Gyre::Log::Server.new
      def settings
        sync = values.fetch(:syncinterval, DEFAULT_SYNC_INTERVAL_S)
        {
          bind: addresses, key: key, logs: values.fetch(:logs, []).map { |log| log_settings(log) },
          default_log: log_settings({ logfile: default_log, cull: values[:cull], levels: levels }.compact), levels: levels,
          interval: values.fetch(:interval, DEFAULT_INTERVAL_S), sync_interval: (sync unless sync.zero?),
          inputs: values.fetch(:inputs, []), tls: values[:tls], limits: values.fetch(:limits, {}), raw: values.fetch(:raw, false),
          origin: values[:origin]
        }
      end

      # @return [String] without secrets
      def inspect
        "#<#{self.class} #{@path} #{addresses.join(" ")}>"
      end

      private

      def levels
        values[:levels]
      end

      # A log that names no severities has all of them, and not those of the top.
      def log_settings(log)
        { services: log[:service], levels: log[:levels], logfile: log[:logfile] || log[:type].upcase, type: log[:type],
          options: log[:options], cull: log.fetch(:cull, false), raw: log.fetch(:raw, values.fetch(:raw, false)),
          origin: log.fetch(:origin, values[:origin]),
          format: log[:format] || values.fetch(:format, "text"), rotate: log[:rotate] || values[:rotate],
          queue: log[:queue], when_full: log[:when_full], spill: log[:spill],
          mode: log[:mode] || values[:mode], owner: log[:owner] || values[:owner] }
      end
    end
  end
end
