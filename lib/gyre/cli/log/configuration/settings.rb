# frozen_string_literal: true

# The settings of `gyre log`, for flags and configuration file: those of Analogger and further ones.
# Output, Inlet, Rotation and Limits define their own settings.

require "gyre/log/output"
require "gyre/log/server/inlet"

module Gyre
  module CLI
    module Log
      class Configuration
        type = Gyre::Settings::Type
        row = Gyre::Settings.method(:row)

        # Takes a number as text, as in Analogger.
        secret = type.new("KEY", "text") { |value| value.to_s unless value.is_a?(Enumerable) }
        # Takes a list, a name, names with commas between, or the keys of a Hash, as in Analogger.
        levels = type.new("LEVELS", "severities, as in: debug,info,warn") do |value|
          value = value.keys.map { |key| key.to_s.delete_prefix(":") } if value.is_a?(Hash)
          names = value.is_a?(Array) ? value : value.to_s.split(",")
          names = names.any?(Enumerable) ? [] : names.map { |name| name.to_s.strip }.reject(&:empty?).uniq
          names if names.any? || value == []
        end
        services = type.new("NAMES", "the name of a service, or a list of names") do |value|
          names = value.is_a?(Array) ? value : [value]
          names.map(&:to_s).uniq unless names.empty? || names.any? { |name| name.nil? || name.is_a?(Enumerable) || name == "" }
        end
        address = type.new("ADDRESS", "an address") { |value| Gyre::Log::Inlet.endpoint(nil, value) && value.to_s }

        # Rows that may stand at the top of the file, or in one log.
        LINE_ROWS = [
          row[:raw, :flag, "write line ends and separators in messages unescaped", default: false],
          row[:origin, :flag, "host and pid of the client: true: also in text; false: not even in JSON", usual: "in JSON only"],
          row[:levels, levels, "the severities that are written", usual: "all"],
          row[:cull, :flag, "only count messages that repeat the one before", default: false]
        ].freeze

        LOG = Gyre::Settings.new(
          { nil => [row[:services, services, "the services whose messages go here", also: %i[service]], *Gyre::Log::Output::SETTINGS,
                    row[:queue, :bytes, "messages for it in memory, like 16M", default: 32 << 20], *LINE_ROWS] },
          what: "key", foreign: { file: "write logfile", path: "write logfile", destination: "write logfile", level: "write levels",
                                  severities: "write levels", severity: "write levels" }
        ) do |values, faults|
          unless !values.key?(:services) || values.key?(:logfile) || %w[stdout stderr].include?(values[:type])
            faults.add(nil, "has no logfile: name a path, STDOUT or STDERR")
          end
          Gyre::Log::Output::RULE.call(values, faults) if values[:logfile]
        end

        SETTINGS = Gyre::Settings.new({
          "Where to listen" => [
            row[:port, :port, "the port; 0 takes a free one", default: 6766, short: "-p", argument: "[PORT]"],
            row[:host, :text, "the host; -h alone prints this text", default: "127.0.0.1", short: "-h", argument: "[HOST]"],
            row[:bind, address, "instead of host and port: tcp://host:port or unix:///path", short: "-b", list: true]
          ],
          "Access" => [
            row[:key, secret, "key that clients must send; better in GYRE_LOG_KEY, as ps shows flags to all users", short: "-k", argument: "[KEY]",
                secret: true],
            row[:key_file, :file, "the file that holds the key"]
          ],
          "Where to write" => [
            row[:default_log, Gyre::Log::Output::DESTINATION, "for services without a log of their own; - is standard output", short: "-d",
                argument: "[PATH]"],
            row[:interval, :seconds, "between writes", range: 0.., default: 1, short: "-i", argument: "[SECONDS]"],
            row[:sync_interval, :seconds, "between syncs; 0 never", range: 0.., default: 60, short: "-s", argument: "[SECONDS]",
                also: %i[syncinterval]]
          ],
          "The process" => [
            row[:daemonize, :flag, "leave the terminal", default: false, short: "-x"],
            row[:pidfile, :file, "holds the process id while the server runs", short: "-w", argument: "[FILE]"],
            row[:user, :text, "become this user once the sockets are open", argument: "NAME"],
            row[:group, :text, "become this group, instead of the user's", argument: "NAME"]
          ],
          nil => [
            row[:logs, LOG, "where services go", list: true, default: []],
            row[:inputs, Gyre::Log::Inlet::SETTINGS, "other sources of messages", list: true, default: []],
            row[:tls, Gyre::Log::TLS_SETTINGS, "TLS for the main port, and for inputs that ask for it"],
            row[:limits, Gyre::Log::Limits::TABLE, "sizes, counts and times that a client may not exceed", default: {}],
            *Gyre::Log::Output::FILE_ROWS, *LINE_ROWS
          ]
        }, what: "key", foreign: {
          controlkey: "write key", password: "write key", address: "write bind", listen: "write bind", addresses: "write bind",
          level: "write levels", severities: "write levels", severity: "write levels", log: "write logs", default: "write default_log",
          pid: "write pidfile", writepid: "write pidfile", daemon: "write daemonize", certificate: "write cert below tls"
        }) { |values, faults| Rules.new(values, faults).apply }
      end
    end
  end
end
