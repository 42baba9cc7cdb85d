# frozen_string_literal: true

# Every key of the configuration, in tables: what it is, how it is checked, whether it is Analogger's. Read by
# Gyre::Log::Configuration::Reader and by the command's help; it holds no values.

module Gyre
  module Log
    class Configuration
      # One key: its name, a check of Checks (or :section, :list and the table of what stands in it), one line that says what it is,
      # whether its value is a secret, and what has to be there for a path: :file itself, or the :folder that it is in.
      Key = Struct.new(:name, :check, :meaning, :table, :hidden, :needs)

      # The tables.
      module Keys
        def self.row(name, check, meaning, table: nil, hidden: false, needs: nil)
          Key.new(name, check, meaning, table, hidden, needs).freeze
        end
        private_class_method :row

        ROTATE = [
          row("size", :bytes, "a file as long as this is changed for a new one, like 100M"),
          row("every", :period, "minute, hour, day, week: a new file when one begins; or seconds"),
          row("keep", :count, "old files that are kept"),
          row("compress", :compression, "old files: gzip, none"),
          row("naming", %w[number time], "old files: log.1, log.2 …; or log.20261121T193000")
        ].freeze

        TLS = [
          row("certificate", :text, "the server's certificate with its chain, PEM", needs: :file),
          row("key", :text, "the file of its private key, PEM", needs: :file),
          row("ca", :text, "the authorities whose clients' certificates count, PEM", needs: :file),
          row("verify", :verification, "true: a client without such a certificate is refused; optional: it is let in")
        ].freeze

        FORMATS = %w[text json].freeze
        WHEN_FULL = %w[block drop spill].freeze
        TYPES = %w[file socket redis stdout stderr].freeze
        INPUTS = %w[syslog json].freeze

        LOG = [
          row("service", :services, "the services whose messages go here"),
          row("levels", :levels, "the severities that are written; all if nothing is said"),
          row("logfile", :destination, "a path, STDOUT or STDERR; tcp://host:port, unix:///path, redis://host:port/0", needs: :folder),
          row("type", TYPES, "file, socket, redis, stdout, stderr"),
          row("options", :options, "for a socket the port; for redis stream and max_length"),
          row("cull", :flag, "true: messages that repeat the one before are counted only"),
          row("default", :ignored, "does nothing, as in Analogger"),
          row("format", FORMATS, "text or json"),
          row("raw", :flag, "true: line ends and separators inside messages are written as they are"),
          row("origin", :flag, "host and pid of the client: true: also in text; false: not in JSON"),
          row("rotate", :section, "new files by size or time", table: ROTATE),
          row("queue", :bytes, "messages for it in memory, like 16M; 32M, see limits"),
          row("when_full", WHEN_FULL, "its queue: block: its senders wait; drop: it is dropped and counted; spill: it goes to a disk"),
          row("spill", :text, "for when_full: spill: a folder of its own, made when it is missing", needs: :folder),
          row("mode", :mode, "of the file, like 0640"),
          row("owner", :owner, "of the file: user, user:group or :group")
        ].freeze

        INPUT = [
          row("type", INPUTS, "what is spoken: syslog; json: an object a line"),
          row("bind", :sources, "where: tcp://host:port, udp://host:port, unix:///path, unixgram:///path"),
          row("framing", %w[auto octet_counting lines], "of syslog: how messages end; auto knows both"),
          row("tls", :flag, "true: with the certificate of tls")
        ].freeze

        TOP = [
          row("port", :port, "the port to listen on (6766)"),
          row("host", :text, "the host to listen on (127.0.0.1)"),
          row("key", :secret, "what clients must know", hidden: true),
          row("key_file", :text, "the file that holds the key", needs: :file),
          row("secret", :ignored, "does nothing, as in Analogger", hidden: true),
          row("interval", :seconds, "seconds between writes (1)"),
          row("syncinterval", :seconds, "seconds between syncs (60); 0 never"),
          row("default_log", :destination, "where services go that no log names; - is STDOUT", needs: :folder),
          row("daemonize", :flag, "true: leave the terminal"),
          row("pidfile", :text, "a file that holds the process id while the server runs", needs: :folder),
          row("levels", :levels, "severities of services that no log names; all if nothing is said"),
          row("cull", :flag, "true: messages of these services that repeat the one before are counted only"),
          row("logs", :list, "where services go", table: LOG),
          row("bind", :addresses, "addresses to listen on, instead of host and port"),
          row("inputs", :list, "other things that are listened for", table: INPUT),
          row("tls", :section, "TLS", table: TLS),
          row("limits", :limits, "sizes, counts and times that a client may not exceed"),
          row("rotate", :section, "new files by size or time, for every file", table: ROTATE),
          row("format", FORMATS, "text or json, for every log"),
          row("mode", :mode, "of every file, like 0640; a new one has what the one before had otherwise"),
          row("owner", :owner, "of every file: user, user:group or :group"),
          row("raw", :flag, "true: line ends and separators inside messages are written as they are"),
          row("origin", :flag, "host and pid of the client, for every log: true: also in text; false: not in JSON")
        ].freeze

        # Words that people bring along, and the key that is meant.
        FOREIGN = {
          "sync_interval" => "syncinterval", "controlkey" => "secret", "address" => "bind", "listen" => "bind", "addresses" => "bind",
          "file" => "logfile", "path" => "logfile", "destination" => "logfile", "services" => "service", "level" => "levels",
          "severities" => "levels", "severity" => "levels", "log" => "logs", "default" => "default_log", "pid" => "pidfile",
          "writepid" => "pidfile", "daemon" => "daemonize", "cert" => "certificate", "certificate_file" => "certificate",
          "private_key" => "key", "ca_file" => "ca", "compression" => "compress", "max_size" => "size", "password" => "key"
        }.freeze
      end
    end
  end
end
