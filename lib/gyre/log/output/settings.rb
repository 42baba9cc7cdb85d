# frozen_string_literal: true

# Settings of one output, for Output.open and entries of `logs`.

require "gyre/log/output/access"
require "gyre/log/output/remote"
require "gyre/log/output/rotation"
require "gyre/settings"

module Gyre
  module Log
    module Output
      type = Gyre::Settings::Type
      row = Gyre::Settings.method(:row)
      # Names of the standard streams, also as images of containers have them.
      STANDARD = { "-" => "STDOUT", "stdout" => "STDOUT", "stderr" => "STDERR", "/dev/stdout" => "STDOUT", "/dev/stderr" => "STDERR",
                   "/dev/fd/1" => "STDOUT", "/dev/fd/2" => "STDERR", "/proc/self/fd/1" => "STDOUT", "/proc/self/fd/2" => "STDERR" }.freeze

      REDIS_SETTINGS = Gyre::Settings.new({ nil => [
        row[:stream, :text, "name of the stream", default: "gyre"],
        row[:max_length, :count, "approximate number of entries kept"]
      ] }, what: "key")

      # A path, an address or a standard stream.
      DESTINATION = type.new("PATH", "a path, STDOUT or STDERR") do |value|
        next unless value.is_a?(String) && !value.empty?
        next STANDARD[value.downcase] if STANDARD.key?(value.downcase)

        Remote.check(value)
        value
      end

      # A mode in octal. YAML reads 0640 as 416 and 640 as 640. Both mean 0640 here: a usable mode
      # is an Integer below 512, and octal digits that are read as decimal make at least 600.
      mode = type.new("MODE", "a file mode in octal that lets the server write, such as 0640") do |value|
        next value if value.is_a?(Integer) && value.between?(0o600, 0o777)

        value.to_s.to_i(8) if value.to_s.match?(/\A0?[67][0-7]{2}\z/)
      end
      owner = type.new("OWNER", "user, user:group or :group") { |value| Access.owner(value.to_s) && value.to_s unless value.is_a?(Enumerable) }
      options = type.new("OPTIONS", "the port of a socket, or options of Redis") do |value|
        value.is_a?(Hash) ? REDIS_SETTINGS.read(value) : Array(value)
      end

      FILE_ROWS = [
        row[:rotate, Rotation::Policy::SETTINGS, "new files by size or time"],
        row[:format, %w[text json], "how a line is written", default: "text"],
        row[:mode, mode, "of the file, like 0640; without it a new file has the mode of the one before"],
        row[:owner, owner, "of the file: user, user:group or :group"]
      ].freeze

      RULE = lambda do |values, faults|
        kind, target = Output.type(values), Output.target(values)
        faults.at("options") { Remote.endpoint(Remote.socket_address(target, values[:options])) } if kind == "socket"
        if kind == "redis"
          faults.at("logfile") { Remote.database(Remote.redis_address(target)) }
          faults.add("options", "Redis has #{REDIS_SETTINGS.words.join(", ")}, as keys with values") if values[:options].is_a?(Array)
        end
        Output.check_spill(values, faults)
      end

      SETTINGS = Gyre::Settings.new({ nil => [
        row[:logfile, DESTINATION, "a path, STDOUT or STDERR; tcp://host:port, unix:///path, redis://host:port/0, rediss:// with TLS"],
        row[:type, %w[file socket redis stdout stderr], "kind of output", usual: "from logfile"],
        row[:options, options, "for a socket the port; for Redis #{REDIS_SETTINGS.words.join(", ")}"],
        row[:when_full, %w[block drop spill],
            "if its queue is full: senders wait, messages are dropped and counted, or go to disk", default: "block"],
        row[:spill, :text, "folder for when_full: spill, made if missing"],
        *FILE_ROWS
      ] }, what: "key", &RULE)

      class << self
        def type(settings)
          given, target = settings[:type].to_s, target(settings)
          return given if given.start_with?("std")
          return STANDARD[target.downcase].downcase if STANDARD.key?(target.downcase)

          given.empty? ? Remote.type(target) || "file" : given
        end

        def target(settings)
          target = settings[:logfile].to_s
          ["", "-"].include?(target) ? "STDOUT" : target
        end

        # Refuses a spill for a file, which is on disk already; a spill would allow duplicate lines.
        def check_spill(settings, faults)
          if settings[:when_full] != "spill"
            faults.add("spill", "counts with when_full: spill only") if settings[:spill]
          elsif file_at?(settings)
            faults.add("when_full", "spill is for sockets, pipes and Redis; a log file is on a disk already: choose block or drop")
          elsif !settings.key?(:spill)
            faults.add("when_full", "spill needs spill: a folder of its own")
          end
        end

        private

        # True for a file, even if it does not exist yet.
        def file_at?(settings)
          target = target(settings)
          type(settings) == "file" && (!::File.exist?(target) || ::File.file?(target))
        end
      end
    end
  end
end
