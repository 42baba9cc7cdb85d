# frozen_string_literal: true

# Reads the configuration of `gyre log`, Analogger's YAML with further keys (SETTINGS), before
# anything starts, and makes keywords for Gyre::Log::Server. Reports all mistakes together, with
# their lines. Opens only the configuration's file and the key's file. Shows no secret.

require "gyre/cli/log/configuration/document"
require "gyre/cli/log/configuration/rules"
require "gyre/cli/log/configuration/settings"

module Gyre
  module CLI
    module Log
      # One server's configuration; immutable.
      #
      #   configuration = Gyre::CLI::Log::Configuration.load("log.yml")
      #   Gyre::Log::Server.new(**configuration.settings).run
      class Configuration
        # Each line of the message is one mistake: file:line: key: remedy.
        class Invalid < Error
          attr_reader :mistakes

          def initialize(mistakes)
            @mistakes = mistakes
            super(mistakes.join("\n"))
          end
        end

        MISSING = "must be keys with values, as in: port: 6766"
        # Default file for messages. If `log` is a folder, the file is in it.
        DEFAULT_LOG = "log"
        DEFAULT_LOG_IN_FOLDER = File.join("log", "default.log")

        attr_reader :values
        attr_reader :notices # mistakes that do not stop the server

        class << self
          # `places`: also checks files and folders that settings name.
          def load(path, places: true) = parse(read(path), path, places: places)

          # Returns the file's text.
          def read(path)
            File.read(path, encoding: Encoding::UTF_8)
          rescue SystemCallError => error
            raise Invalid, ["#{path}: the configuration cannot be read: #{error.class.new.message.downcase}"]
          end

          def parse(text, path = "log.yml", places: false)
            raise Invalid, ["#{path}: is not in UTF-8"] unless text.valid_encoding?

            mistakes = []
            document = Document.new(text) { |*mistake| mistakes << mistake }
            return invalid(mistakes, path) unless document.plain.is_a?(Hash) || mistakes.empty?
            return invalid([[1, nil, MISSING]], path) unless document.plain.is_a?(Hash)

            notices = Notices.take(document.plain, document).map { |key, message| [document.line_of(key), key, message] }
            faults = Gyre::Settings::Faults.new
            values = SETTINGS.read(document.plain, faults)
            Rules.new(values, faults).places if places
            mistakes.concat(faults.all.map { |key, message| [document.line_of(key), key, message] })
            mistakes.empty? ? new(values, path: path, notices: lines(notices, path)) : invalid(mistakes, path)
          end

          private

          def invalid(mistakes, path) = raise(Invalid, lines(mistakes, path))

          def lines(remarks, path)
            remarks.sort_by.with_index { |remark, index| [remark.first, index] }
                   .map { |line, key, text| "#{path}:#{line}: #{"#{key}: " if key}#{text}" }.uniq
          end
        end

        def initialize(values = {}, path: nil, notices: [])
          @values = values.freeze
          @path = path
          @notices = notices.freeze
          freeze
        end

        # In `over`, host or port replaces bind, bind replaces host and port, and key replaces
        # key_file.
        def merge(over)
          replaced = []
          replaced << :bind if over.key?(:host) || over.key?(:port)
          replaced.push(:host, :port) if over.key?(:bind)
          replaced.push(:key, :key_file) if over.key?(:key) || over.key?(:key_file)
          Configuration.new(values.reject { |name, _| replaced.include?(name) }.merge(over), path: @path, notices: notices)
        end

        def with_environment
          key = ENV["GYRE_LOG_KEY"].to_s
          key.empty? ? self : merge(key: key)
        end

        # Returns the addresses to which clients of Analogger and Gyre connect.
        def addresses
          return values[:bind] if values[:bind]

          host, port = all.values_at(:host, :port)
          host = "[#{host}]" if host.count(":") > 1 && !host.start_with?("[")
          ["tcp://#{host}:#{port}"]
        end

        # Returns the destination for services without a log. If none is set, it is STDOUT with a
        # configuration file (as in Analogger), otherwise ./log.
        def default_log
          values.fetch(:default_log) do
            next "STDOUT" if @path

            File.directory?(DEFAULT_LOG) ? DEFAULT_LOG_IN_FOLDER : DEFAULT_LOG
          end
        end

        # Returns the key; nil if clients need none. Raises Invalid for an empty or unreadable file.
        def key
          return (values[:key] unless values[:key].to_s.empty?) unless values[:key_file]

          text = File.read(values[:key_file], encoding: Encoding::BINARY).chomp
          text.empty? ? raise(Invalid, ["#{values[:key_file]}: holds no key; put it on the first line"]) : text
        rescue SystemCallError => error
          raise Invalid, ["#{values[:key_file]}: the key cannot be read: #{error.class.new.message.downcase}"]
        end

        def settings
          {
            **all.slice(:interval, :sync_interval, :inputs, :limits), **values.slice(:tls, :raw, :origin),
            bind: addresses, key: key,
            logs: all[:logs].select { |log| log[:services] }.map { |log| log_settings(log) },
            default_log: log_settings({ logfile: default_log, **values.slice(:cull, :levels) })
          }
        end

        def inspect = "#<#{self.class} #{@path} #{addresses.join(" ")}>"

        private

        def all = SETTINGS.defaults.merge(values)

        # Settings at the top also apply to each log that does not set them itself. Only levels and
        # cull do not: at the top they are for services without a log.
        def log_settings(log) = { logfile: log[:type]&.upcase, **values.slice(:rotate, :format, :mode, :owner, :raw, :origin), **log }

        # Finds settings that work, but perhaps not as intended. Returns pairs of path and text.
        module Notices
          module_function

          # Returns notices. Removes Analogger's keys that have no effect.
          def take(values, document)
            logs = values["logs"].is_a?(Array) ? values["logs"].each_with_index.select { |log, _| log.is_a?(Hash) } : []
            notices = [*without_effect(values, "secret"), *key(values["key"], document.written("key")), *levels(values, "levels"), *services(logs)]
            logs.each_with_object(notices) do |(log, index), all|
              place = "logs[#{index + 1}]"
              all.concat(without_effect(log, "default", "#{place}.default"), levels(log, "#{place}.levels"))
              all << [place, "has no service, so nothing goes there, as in Analogger"] unless log.key?("services") || log.key?("service")
            end
          end

          def without_effect(values, name, path = name) = values.delete(name).nil? ? [] : [[path, "does nothing, as in Analogger; it may be removed"]]

          def key(value, written)
            return [] if value.nil? || value.is_a?(String) || value.is_a?(Enumerable) || value.to_s == written

            [["key", "YAML does not read this as text, which changes it; put it in quotes if clients cannot get in"]]
          end

          def levels(values, path)
            levels = values["levels"]
            off = levels.is_a?(Hash) ? levels.select { |_, value| value == false }.keys : []
            [([path, "lets nothing through"] if levels == []),
             ([path, "#{off.join(", ")} is let through, as in Analogger, whatever its value; remove it"] if off.any?)].compact
          end

          def services(logs)
            names = logs.flat_map { |log, _| Array(log["services"] || log["service"]).map(&:to_s).uniq }
            names.tally.select { |_, count| count > 1 }
                 .map { |name, count| ["logs", "service #{name} goes to #{count} entries; in Analogger the last one counts"] }
          end
        end
      end
    end
  end
end
