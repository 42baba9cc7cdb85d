# frozen_string_literal: true

# Gyre::Log::Client: a Logger that sends to a log server. Loaded by `require "gyre/log/client"`.
# Needs neither a loop nor a scheduler; works in threads, fibers, signal handlers and forked
# children. client/sending.rb sends the records.

require "gyre/log/client/sending"
require "gyre/log/client/logger_methods"

module Gyre
  module Log
    # Logs to a log server; see docs/log.md.
    class Client < ::Logger
      include Sending
      include LoggerMethods

      # Starts to connect and returns at once.
      # @param service [String] the messages' service; without ":"
      # @param host [String, nil] default 127.0.0.1
      # @param port [Integer, nil] default 6766
      # @param address [String, nil] instead of host and port: tcp://host:port or unix:///path
      # @param key [String, nil] the server's key
      # @param acknowledged [Boolean, :if_possible] false: Analogger's protocol
      # @param level [Integer, String, Symbol] as Logger's
      # @param progname [Object, nil] as Logger's, for a formatter
      # @param formatter [#call, nil] as Logger's; nil sends messages as they are
      # @param tls [true, Hash, TLS::Context, nil] true: system authorities; Hash: see {TLS.client}
      # @param connect_timeout [Numeric] seconds to wait for a connection
      # @param options [Hash]
      # @option options [String, Boolean] :spool folder for unsent records; true: the default one
      # @option options [Integer] :spool_limit bytes on disk; 1 GiB
      # @option options [Integer] :memory_limit bytes in memory; 16 MiB
      # @option options [Symbol] :when_full :block (waits), :drop_oldest (counts), :raise
      # @option options [Numeric] :stall_timeout seconds without a response until a reconnect; 10
      # @option options [Numeric] :exit_timeout seconds that sending may delay the exit; 5
      # @option options [Numeric] :flush_timeout seconds, 5; 0 under Rails, as it flushes each
      #   request
      # @option options [Numeric] :adoption_interval seconds between searches for orphaned spools
      # @option options [#call] :report gets errors, as Strings; default: $stderr
      # @raise [ArgumentError]
      # @raise [ExtensionRequired] without the C extension
      def initialize(service = "default", host: nil, port: nil, address: nil, key: nil, acknowledged: true, level: DEBUG, progname: nil,
                     formatter: nil, tls: nil, connect_timeout: 5, **options)
        Loop.require_native("the log client")
        set_up_levels
        super(nil, level: level, progname: progname, formatter: formatter)
        open_sender(service, host: host, port: port, address: address, key: key, acknowledged: acknowledged, tls: tls,
                             connect_timeout: connect_timeout, **options)
      end
    end
  end
end
