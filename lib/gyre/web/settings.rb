# frozen_string_literal: true

# A web server's settings, with HTTP's limits: one table for the command line, the configuration
# file, rackup's options and Gyre::Web::Server.

require "shellwords"
require "gyre/web/addresses"
require "gyre/cluster/hooks"
require "gyre/web/control/server"
require "gyre/web/layers/trusted_proxies"
require "gyre/web/access_log/log_format"

module Gyre
  module Web
    # Words of other servers' configurations, mostly Puma's, with the advice that Web::SETTINGS
    # gives when it refuses them.
    FOREIGN_WORDS = {
      persistent_timeout: "write keep_alive_timeout", first_data_timeout: "write first_byte_timeout",
      http_content_length_limit: "write body_bytes_limit", max_keep_alive: "write keep_alive_requests_limit",
      force_shutdown_after: "write shutdown_timeout", worker_shutdown_timeout: "write shutdown_timeout",
      count: "write workers", cluster: "write workers", state_path: "write state", set_default_host: "write host",
      stdout_redirect: "write access_log", redirect_stdout: "write access_log", redirect_stderr: "write access_log",
      redirect_append: "write access_log", log_requests: "write log_format", log_formatter: "write log_format",
      set_remote_address: "write trusted_proxy", rack_url_scheme: "write trusted_proxy, whose X-Forwarded-Proto is trusted",
      app: "write rackup, the file that makes the app", ssl_bind: "write bind \"ssl://host:port?cert=PATH&key=PATH\", or tls",
      activate_control_app: "write metrics for figures, state for commands", control_url: "write state: the control socket is beside that file",
      silent: "write quiet, or log_format \"none\" to log no requests", debug: "write watchdog, which logs requests that block others",
      after_booted: "write after_worker_start, which runs in each worker", on_booted: "write after_worker_start, which runs in each worker",
      after_stopped: "write after_worker_stop, which runs after each worker", on_stopped: "write after_worker_stop, which runs after each worker",
      plugin: "write restart_file \"tmp/restart.txt\" for tmp_restart, beside \"bin/jobs\" for solid_queue; systemd is built in",
      inject: "leave it out: load with a path is plain Ruby", include: "set RUBYLIB", no_config: "write config -",
      io_selector_backend: "set GYRE_BACKEND; by default the loop takes the best backend",
      stream_output_bytes_limit: "leave it out: it is 64 KB", directory: "start the server in that folder", dir: "start the server in that folder",
      **%i[
        threads max_io_threads fiber_per_request queue_requests before_thread_start on_thread_start before_thread_exit on_thread_exit preload_app
        preload fork_worker nakayoshi_fork before_refork on_refork after_refork before_restart on_restart restart_command restart_cmd state_permission
        control_token bind_to_activated_sockets clear_binds wait_for_less_busy_worker worker_check_interval worker_culling_strategy drain_on_shutdown
        raise_exception_on_sigterm shutdown_debug enable_keep_alives max_fast_inline supported_http_methods allow_underscore_headers
        lowlevel_error_handler custom_logger mutate_stdout_and_stderr_to_sync_on_write silence_single_worker_warning
        silence_fork_callback_warning single prune_bundler extra_runtime_dependencies tag idle_timeout out_of_band
      ].to_h { |word| [word, "leave it out: Gyre needs no such setting (docs/from-puma.md)"] }
    }.freeze

    # The value of a setting that names a folder: `public`, or `public?at=/files&immutable`. Does
    # not access the disk.
    Folder = Struct.new(:path, :options) do
      def self.parse(value, **options)
        return value if value.is_a?(self)

        path, query = value.respond_to?(:to_path) ? value.to_path : (value.split("?", 2) if value.is_a?(String))
        raise ArgumentError, "must be a path, not #{Gyre::Settings.shown(value)}" if path.to_s.empty?

        pairs = query.to_s.split("&").to_h { |pair| pair.split("=", 2).then { |name, text| [name.tr("-", "_"), text || true] } }
        new(path, self::SETTINGS.read(pairs.merge(options)))
      end
    end

    row = Gyre::Settings.method(:row)
    Folder::SETTINGS = Gyre::Settings.new({ nil => [
      row[:at, :text, "URL path of the files", default: "/"],
      row[:index, :flag, "a path that ends with / is its index.html", default: false],
      row[:dot_files, :flag, "serve names that begin with a dot, too; /.well-known/ always is", default: false],
      row[:symlinks, :flag, "let symbolic links lead out of the folder", default: false],
      row[:precompressed, :flag, "send app.js.br, app.js.zst or app.js.gz beside app.js to clients that accept it", default: true],
      row[:immutable, :flag, "cache files with a digest in their names (app-1a2b3c4d.js) for a year", default: false],
      row[:cache_control, :text, "cache-control of all other files"]
    ] }, what: "option of a folder")

    # Types of settings that only a web server has.
    module Types
      type = Gyre::Settings::Type
      FOLDER = type.new("DIR", "a folder, with options as in 'public?at=/files&immutable'") { |value| Folder.parse(value) }
      LOG_FORMAT = type.new("FORMAT", "#{LogFormat::NAMES.join(", ")}, or directives like %h %r %s") { |value| LogFormat.check(value) }
      RANGE = type.new("RANGE", "an address, a range like 10.0.0.0/8, private or loopback") { |value| TrustedProxies.ranges(value) && value }
      CONTROL = type.new("ADDRESS", "a port of this machine, host:port or unix:///path") { |value| ControlServer.endpoint(value) && value }
      URL_PATH = type.new("PATH", "a path like /up") { |value| value if value.is_a?(String) && value.match?(%r{\A/[^?#\s]*\z}) }
      COMMAND = type.new("COMMAND", "a command like \"bin/jobs\"") { |value| value if value.is_a?(String) && Shellwords.split(value).any? }
      HOST = type.new("HOST", "a host name, an IP address or *") do |value|
        value if value.is_a?(String) && !value.empty? && Endpoint.parse(Addresses.tcp(value, 0), transports: [:tcp])
      end
      DIRECTORY = type.new("URL", "an address with https") { |value| value if value.is_a?(String) && value.match?(%r{\Ahttps://[^/\s]+/\S*\z}) }
      BINDING = type.new("ID:SECRET", "an id and a secret") { |value| value if value.is_a?(String) && value.match?(%r{\A[^\s:]+:[\w+/=-]+\z}) }
      ADDRESS = type.new("ADDRESS", "an address") { |value| Addresses.endpoint(value) && value }
      CERTIFICATES = type.new(nil, "true, or certificates") do |value|
        next value if value == true

        all = value.is_a?(Array) ? value : [value]
        all.map { |each| Addresses::CERTIFICATE.read(each) } unless all.empty?
      end
      PROCESSES = type.new("COUNT", "a whole number from 0 to 1000, or auto") do |value|
        value.to_s == "auto" ? "auto" : Units.integer(value)&.then { |count| count if count.between?(0, 1000) }
      end
    end

    row = Gyre::Settings.method(:row)

    # Settings of Gyre::Web::Server, except addresses and limits.
    SERVER_SETTINGS = Gyre::Settings.new({
      "Files and compression" => [
        row[:static, Types::FOLDER, "a folder whose files are sent without calling the app; options: #{Folder::SETTINGS.words.join(", ")}",
            list: true, default: []],
        row[:sendfile, Types::FOLDER, "a folder whose files the app may name in X-Sendfile", list: true, default: []],
        row[:compress, :flag, "compress responses for clients that accept it", default: false],
        row[:compress_minimum, :bytes, "smallest body that is compressed", default: 1024]
      ],
      "A cache of public responses" => [
        row[:cache, :bytes, "memory of a worker for responses that the app calls public; 0: none are kept", range: 0..,
            default: 0, usual: "$CACHE_SIZE or 0"],
        row[:cache_item_limit, :bytes, "longest body that is kept", default: 1 << 20, usual: "$MAX_CACHE_ITEM_SIZE or 1M"]
      ],
      "Logs" => [
        row[:log_format, Types::LOG_FORMAT, "access log: #{LogFormat::NAMES.join(", ")}, or directives like '%h %t \"%r\" %>s %b %D'",
            usual: "common in development and with an access_log, none elsewhere"],
        row[:access_log, :file, "file of the access log; HUP reopens it", usual: "standard output"],
        row[:request_id, :flag, "give each request an X-Request-Id: the client's if valid, or a new one", default: false],
        row[:watchdog, :flag, "log requests that block all others, and where", usual: "on in development"]
      ],
      "Proxies in front" => [
        row[:trusted_proxy, Types::RANGE, "a proxy whose X-Forwarded headers are trusted: an address, 10.0.0.0/8, private or loopback", list: true,
            default: []],
        row[:forwarded_header, TrustedProxies::HEADERS, "a header that these proxies write", list: true,
            default: TrustedProxies::USUAL]
      ],
      "Redirects" => [
        row[:https_redirect, :flag, "lead plain requests to https; hosts without a certificate get 421", default: false, usual: "on with acme"]
      ],
      "Optional parts of HTTP" => [
        row[:early_hints, :flag, "let the app send 103 Early Hints, which nginx before 1.29 mistakes for the response", default: false],
        row[:extended_connect, :flag, "let HTTP/2 clients open WebSockets within a connection (RFC 8441)", default: false]
      ],
      "Metrics" => [
        row[:metrics, Types::CONTROL, "where /metrics (Prometheus) and /status (gyre top) are served: a port, host:port or unix:///path", list: true,
            default: []]
      ],
      "Load (see also requests-limit, queue-limit and request-timeout below)" => [
        row[:health_path, Types::URL_PATH, "a path that the server answers with 200 without calling the app"],
        row[:ready_path, Types::URL_PATH, "the same, but with 503 while the server stops or its queue is full"],
        row[:cancel_when_client_gone, :flag, "cancel a request when its client resets the connection", default: false]
      ],
      "Stopping (INT or TERM; a second one stops at once)" => [
        row[:shutdown_timeout, :seconds, "time for running requests to finish", range: 0.., default: 30]
      ]
    }, foreign: FOREIGN_WORDS.merge(HTTP::Limits::TABLE.flat_map { |limit| [limit.name, limit.word.to_sym] }.to_h do |name|
                                      [name, "it is one of limits: { #{name}: … }"]
                                    end))

    SETTINGS = Gyre::Settings.new(
      {
        "Where to listen" => [
          row[:bind, Types::ADDRESS, "an address: tcp://host:port, ssl://host:port, unix:///path, host:port or a port; * is every host", list: true,
              short: "-b", usual: "localhost:9292 in development, *:9292 elsewhere"],
          row[:port, :port, "port of one more address; 0 takes a free one", short: "-p", usual: "$PORT or 9292"],
          row[:host, Types::HOST, "host of one more address", short: "-o", usual: "localhost in development, * elsewhere"],
          row[:tls, Types::CERTIFICATES, "https with a self-signed certificate of this machine, for development"]
        ],
        "Certificates by ACME (Let's Encrypt and others; docs/deploy.md)" => [
          row[:acme, Addresses::HOST_NAME, "a name whose certificate is ordered and renewed; use agrees to the authority's terms", list: true,
              argument: "NAME", usual: "$TLS_DOMAIN, unless an address is named"],
          row[:acme_directory, Types::DIRECTORY, "the authority; usually $ACME_DIRECTORY",
              default: "https://acme-v02.api.letsencrypt.org/directory"],
          row[:acme_profile, :text, "a kind of certificate that the authority offers"],
          row[:acme_folder, :file, "keeps the certificates; must last",
              usual: "$STORAGE_PATH, storage/acme in Rails, $STATE_DIRECTORY/acme or ~/.local/state/gyre/acme"],
          row[:acme_account_key, :file, "PEM of the account's key, for machines that share a name", secret: true],
          row[:acme_eab, Types::BINDING, "binds the account to a customer's", secret: true, usual: "$EAB_KID and $EAB_HMAC_KEY"]
        ],
        "The app" => [
          row[:environment, :text, "value of RACK_ENV", short: "-e", argument: "NAME", usual: "$APP_ENV, $RACK_ENV, $RAILS_ENV or development"]
        ],
        **SERVER_SETTINGS.groups,
        "Workers (forks of the process that has loaded the app)" => [
          row[:workers, Types::PROCESSES, "processes that serve; auto: one per processor; 0: one process does everything", short: "-w",
              usual: "$WEB_CONCURRENCY or 0"],
          row[:worker_timeout, :seconds, "replace a worker that has been silent for this long", default: 60],
          row[:worker_boot_timeout, :seconds, "time for a worker from its fork until it serves", default: 60],
          row[:load_timeout, :seconds, "time for the app to load, before workers are forked", default: 300],
          row[:worker_memory_limit, :bytes, "replace a worker with more resident memory, after its requests (Linux)"],
          row[:beside, Types::COMMAND, "a program that runs beside the workers, like bin/jobs, and is restarted when it ends", list: true,
              default: [], usual: "bin/jobs with $SOLID_QUEUE_IN_PUMA"],
          row[:restart_file, :file, "touching this file restarts the workers one after another, as tmp/restart.txt is by bin/rails restart"]
        ],
        "The process" => [
          row[:pidfile, :file, "holds the process id while the server runs"],
          row[:state, :file, "tells gyre ctl and others about the server; its control socket is beside it", usual: "with workers tmp/gyre.state"],
          row[:user, :text, "become this user once the sockets are open", argument: "NAME"],
          row[:group, :text, "become this group", argument: "NAME", usual: "the user's"],
          row[:quiet, :flag, "print nothing but errors, and log requests only with --log-format", short: "-q", default: false]
        ],
        "Limits (BYTES may end in k, M or G; SECONDS may be none)" => HTTP::Limits::TABLE.to_a,
        nil => [
          row[:rackup, :file, "file of the app: a rackup file, a .rb file that defines it, or a folder with a config.ru", default: "config.ru"],
          row[:dns_challenge, Cluster::Hooks::BLOCK, "sets a TXT record for acme (third argument true) or removes it: dns-01 for all names"],
          *Cluster::Hooks::ROWS
        ]
      }, foreign: FOREIGN_WORDS
    )
  end
end
