# frozen_string_literal: true

# Every key of the configuration, in a table for each section: what it is, its type, what must be
# there, and which keys belong together. Read by Reader and SectionRules; it holds no values. A key
# is named like its flag and like the setting of Gyre::Log::Server; Analogger's names for some of
# them are accepted as Analogger's.

require "gyre/log/output"
require "gyre/log/server/input"

module Gyre
  module CLI
    module Log
      class Configuration
        # One key: its name, its type (a function of Checks or Values, an Array of words, or
        # :section, :list, :limits), one line that describes it, the Section for :section and :list,
        # whether its value is a secret, and what has to exist for a path: :file, the :folder that
        # it is in, or the folder in which the file is :written.
        Key = Struct.new(:name, :type, :meaning, :section, :secret, :place, keyword_init: true)

        # One section: its keys, those that it needs, of which it needs one at least, and which
        # exclude others ({"bind" => ["host"]}); the functions of SectionRules for everything else;
        # and Analogger's keys: the name here, or nil for those without effect.
        Section = Struct.new(:keys, :needs, :needs_one, :excludes, :rules, :analogger, keyword_init: true) do
          # @param name [String]
          # @return [Key, nil]
          def key(name)
            keys.find { |key| key.name == name }
          end

          # @return [Array<String>]
          def names = keys.map(&:name)
        end

        # The tables.
        module Keys
          def self.row(name, type, meaning, **rest)
            Key.new(name: name, type: type, meaning: meaning, **rest).freeze
          end

          def self.section(*keys, needs: [], needs_one: [], excludes: {}, rules: [], analogger: {})
            Section.new(keys: keys, needs: needs, needs_one: needs_one, excludes: excludes, rules: rules, analogger: analogger).freeze
          end
          private_class_method :row, :section

          ROTATE = section(
            row("size", :bytes, "a file of this length is replaced by a new one, like 100M"),
            row("every", :span, "minute, hour, day, week: a new file when one begins; or seconds"),
            row("keep", :count, "old files that are kept"),
            row("compress", :compression, "old files: gzip, none"),
            row("naming", Gyre::Log::Rotation::Policy::NAMINGS, "old files: log.1, log.2 …; or log.20261121T193000"),
            needs_one: %w[size every]
          )

          TLS = section(
            row("certificate", :text, "the server's certificate with its chain, PEM", place: :file),
            row("key", :text, "the file of its private key, PEM", place: :file),
            row("ca", :text, "the authorities whose clients' certificates are accepted, PEM", place: :file),
            row("verify", :verification, "true: a client without such a certificate is refused; optional: it is admitted"),
            needs: %w[certificate key], rules: %i[certificates]
          )

          # The same for all logs at the top, and for one of them.
          FOR_FILES = [
            row("rotate", :section, "new files by size or time", section: ROTATE),
            row("format", Gyre::Log::Output::FORMATS, "text or json"),
            row("mode", :mode, "of the file, like 0640; a new one has otherwise the mode of the one before"),
            row("owner", :owner, "of the file: user, user:group or :group"),
            row("raw", :flag, "true: line ends and separators inside messages are written as they are"),
            row("origin", :flag, "host and pid of the client: true: also in text; false: not in JSON"),
            row("levels", :levels, "the severities that are written; all by default"),
            row("cull", :flag, "true: messages that repeat the one before are counted only")
          ].freeze

          LOG = section(
            row("services", :services, "the services whose messages go here"),
            row("logfile", :destination, "a path, STDOUT or STDERR; tcp://host:port, unix:///path, redis://host:port/0", place: :written),
            row("type", Gyre::Log::Output::TYPES, "file, socket, redis, stdout, stderr"),
            row("options", :options, "for a socket the port; for redis stream, max_length and shared"),
            row("queue", :bytes, "messages for it in memory, like 16M; 32M, see limits"),
            row("when_full", Gyre::Log::Output::WHEN_FULL,
                "its queue: block: its senders wait; drop: messages are dropped and counted; spill: they go to a disk"),
            row("spill", :text, "for when_full: spill: a folder of its own, made when it is missing", place: :folder),
            *FOR_FILES,
            rules: %i[log_without_service logfile socket redis spill], analogger: { "service" => "services", "default" => nil }
          )

          INPUT = section(
            row("type", Gyre::Log::Input::KINDS, "what is spoken: syslog; json: an object a line"),
            row("bind", :sources, "where: tcp://host:port, udp://host:port, unix:///path, unixgram:///path"),
            row("framing", Gyre::Log::Input::FRAMINGS, "of syslog: how messages end; auto detects both"),
            row("tls", :flag, "true: with the certificate of tls"),
            needs: %w[type bind], rules: %i[datagrams]
          )

          TOP = section(
            row("port", :port, "the port to listen on (6766)"),
            row("host", :text, "the host to listen on (127.0.0.1)"),
            row("bind", :addresses, "addresses to listen on, instead of host and port"),
            row("key", :secret, "what clients must send", secret: true),
            row("key_file", :text, "the file that holds the key", place: :file),
            row("interval", :seconds, "seconds between writes (1)"),
            row("sync_interval", :seconds, "seconds between syncs (60); 0 never"),
            row("default_log", :destination, "where services go that no log names; - is STDOUT", place: :written),
            row("daemonize", :flag, "true: leave the terminal"),
            row("pidfile", :text, "a file that holds the process id while the server runs", place: :written),
            row("logs", :list, "where services go", section: LOG),
            row("inputs", :list, "other sources of messages", section: INPUT),
            row("tls", :section, "TLS", section: TLS),
            row("limits", :limits, "sizes, counts and times that a client may not exceed"),
            *FOR_FILES,
            excludes: { "bind" => %w[host port], "key_file" => %w[key] }, rules: %i[input_tls services files spills],
            analogger: { "syncinterval" => "sync_interval", "secret" => nil }
          )

          # Words of other programs, and the key that is meant.
          FOREIGN = {
            "controlkey" => "key", "address" => "bind", "listen" => "bind", "addresses" => "bind", "syncinterval" => "sync_interval",
            "file" => "logfile", "path" => "logfile", "destination" => "logfile", "level" => "levels", "severities" => "levels",
            "severity" => "levels", "log" => "logs", "default" => "default_log", "pid" => "pidfile", "writepid" => "pidfile",
            "daemon" => "daemonize", "cert" => "certificate", "certificate_file" => "certificate", "private_key" => "key",
            "ca_file" => "ca", "compression" => "compress", "max_size" => "size", "password" => "key"
          }.freeze
        end
      end
    end
  end
end
