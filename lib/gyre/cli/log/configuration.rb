# frozen_string_literal: true

# The settings of `gyre log`: Analogger's YAML as it is, with keys of ours beside (Keys). The
# command reads it before anything starts, and gives Gyre::Log::Server its keyword settings. All
# mistakes are reported at once, each with its line; it opens nothing but the file itself and the
# file of the key, and shows no secret.

require "gyre/errors"
require "gyre/log/limits"
require "gyre/cli/log/configuration/document"
require "gyre/cli/log/configuration/reader"

module Gyre
  module CLI
    module Log
      # What one server is to do. Immutable; {#merge} returns a new one.
      #
      #   configuration = Gyre::CLI::Log::Configuration.load("log.yml")
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
        DEFAULT_PORT = 6766
        DEFAULT_INTERVAL_S = 1
        DEFAULT_SYNC_INTERVAL_S = 60
        # Where messages go without any configuration; where a folder has that name, a file in it.
        DEFAULT_LOG = "log"
        DEFAULT_LOG_IN_FOLDER = File.join("log", "default.log")

        # @return [Hash{Symbol => Object}] what is configured, by the names of Keys
        attr_reader :values
        # @return [Array<String>] what works, but perhaps not as meant
        attr_reader :notices

        class << self
          # @param path [String]
          # @param places [Boolean] whether the files and folders that it names have to be there, as
          #   they do for the server
          # @return [Configuration]
          # @raise [Invalid]
          def load(path, places: true)
            parse(File.read(path, encoding: Encoding::UTF_8), path, places: places)
          rescue SystemCallError => error
            raise Invalid, ["#{path}: the configuration cannot be read: #{error.class.new.message.downcase}"]
          end

          # @param text [String] YAML
          # @param path [String] its name in messages
          # @param places [Boolean] see {load}
          # @return [Configuration]
          # @raise [Invalid]
          def parse(text, path = "log.yml", places: false)
            raise Invalid, ["#{path}: is not in UTF-8"] unless text.valid_encoding?

            reader = Reader.new(places: places)
            document = Document.new(text) { |line, key, message| reader.wrong(line, key, message) }
            values = document.root ? reader.read(document.root) : {}
            reader.wrong(1, nil, "is empty: write at least one key, as in: port: 6766") if document.root.nil? && reader.mistakes.empty?
            raise Invalid, lines(reader.mistakes, path) if reader.mistakes.any?

            new(values, path: path, notices: lines(reader.notices, path))
          end

          # Checks one value of a flag.
          #
          # @param name [Symbol] a key of the file's top
          # @param value [Object]
          # @param places [Boolean] see {load}
          # @return [Object] it, as {#values} has it
          # @raise [ArgumentError] the message has what is expected
          def check(name, value, places: false)
            key = Keys::TOP.key(name.to_s)
            checked = Checks.check(key.type, Node.new(:scalar, value, 0, value.to_s))
            Checks.place(key.place, checked) if places && key.place
            Checks.writable(checked) if places && key.place == :written
            checked
          end

          # @param address [String, Integer] as in `bind`
          # @param transports [Array<Symbol>]
          # @return [Gyre::Endpoint]
          # @raise [ArgumentError]
          def endpoint(address, transports: %i[tcp unix])
            Endpoint.parse(address, host: DEFAULT_HOST, port: DEFAULT_PORT, transports: transports)
          end

          private

          def lines(remarks, path)
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

        # @param over [Hash{Symbol => Object}] values that win; a host or port replaces the file's
        #   bind, a bind its host and port, a key its key_file
        # @return [Configuration]
        def merge(over)
          replaced = []
          replaced << :bind if over.key?(:host) || over.key?(:port)
          replaced.push(:host, :port) if over.key?(:bind)
          replaced.push(:key, :key_file) if over.key?(:key) || over.key?(:key_file)
          Configuration.new(values.reject { |name, _| replaced.include?(name) }.merge(over), path: @path, notices: notices)
        end

        # @return [Configuration] with the key that GYRE_LOG_KEY holds, if it does
        def with_environment
          key = ENV["GYRE_LOG_KEY"].to_s
          key.empty? ? self : merge(key: key)
        end

        # @return [Array<String>] addresses to listen on for Analogger's clients and ours
        def addresses
          return values[:bind] if values[:bind]

          host = values.fetch(:host, DEFAULT_HOST)
          host = "[#{host}]" if host.count(":") > 1 && !host.start_with?("[")
          ["tcp://#{host}:#{values.fetch(:port, DEFAULT_PORT)}"]
        end

        # @return [String] Analogger writes to STDOUT when no file is named; without any
        #   configuration it is ./log
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
        def daemonize? = values.fetch(:daemonize, false)

        # @return [String, nil]
        def pidfile = values[:pidfile]

        # @return [Hash{Symbol => Object}] keyword arguments for Gyre::Log::Server.new
        def settings
          sync = values.fetch(:sync_interval, DEFAULT_SYNC_INTERVAL_S)
          {
            bind: addresses, key: key, logs: values.fetch(:logs, []).select { |log| log[:services] }.map { |log| log_settings(log) },
            default_log: log_settings({ logfile: default_log, **values.slice(:cull, :levels) }),
            interval: values.fetch(:interval, DEFAULT_INTERVAL_S), sync_interval: (sync unless sync.zero?),
            inputs: values.fetch(:inputs, []), limits: values.fetch(:limits, {}), **values.slice(:tls, :raw, :origin)
          }
        end

        # @return [String] without secrets
        def inspect = "#<#{self.class} #{@path} #{addresses.join(" ")}>"

        private

        # Each file has what is configured for all, unless its entry has its own; severities and
        # culling at the top are for services without a log.
        def log_settings(log)
          { logfile: log[:type]&.upcase, **values.slice(:rotate, :format, :mode, :owner, :raw, :origin), **log }
        end
      end
    end
  end
end
