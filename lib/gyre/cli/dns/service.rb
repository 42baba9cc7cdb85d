# frozen_string_literal: true

# A running DNS server with its log: one process, or one of the workers. Gyre::CLI::DNS::Serve makes
# it; Gyre::Web::Cluster::Worker and Gyre::Web::ControlApp call it. Opens nothing.

require "gyre/dns"
require "gyre/web/logs/log_file"

module Gyre
  module CLI
    module DNS
      class Service
        def initialize(server, log, err, worker: 0)
          @server = server
          @log = log
          @err = err
          @worker = worker
        end

        def run(&block) = @server.run(@worker, &block)

        # Called in signal handlers, too, which may take no lock.
        def stop(**) = Thread.new { @server.stop }

        def reload = Thread.new { reload_now }

        def reload_now
          @log.reopen if @log.is_a?(Web::LogFile)
          @server.reload
          @err.puts("gyre dns: rules and zones are read again")
        rescue StandardError, ScriptError => error
          @err.puts("gyre dns: not reloaded, the former rules and zones stay: #{error.message}")
        end

        def snapshot
          { "version" => VERSION, "ruby" => RUBY_VERSION, "pid" => Process.pid, "dns" => @server.stats.transform_keys(&:to_s) }
        end

        def snapshots = { "0" => snapshot }
      end
    end
  end
end
