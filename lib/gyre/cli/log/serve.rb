# frozen_string_literal: true

# `gyre log [serve]`: configuration and flags in, a running server out. Gyre::LogCommand starts it. Nothing is opened before
# everything that is written has been understood; the serving itself is Gyre::Log::Server's.

require "gyre/version"
require "gyre/log/configuration"
require "gyre/cli/log/daemon"
require "gyre/cli/log/pidfile"
require "gyre/cli/log/restart"
require "gyre/cli/log/serve_options"

module Gyre
  module LogCommand
    # One start of the server.
    class Serve
      # More descriptors than this are never of use.
      DESCRIPTORS_LIMIT = 1 << 20
      private_constant :DESCRIPTORS_LIMIT

      # @param out [IO]
      # @param err [IO] takes what the server says about itself, for standard output may be a log
      # @param input [IO] is not read
      def initialize(out:, err:, input: nil)
        @out = out
        @err = err
        @input = input
      end

      # @param arguments [Array<String>]
      # @return [Integer] the exit status
      # @raise [UsageError, StartError]
      def start(arguments)
        options = ServeOptions.new(arguments)
        case options.show
        when :help    then @out.puts(options.help)
        when :version then @out.puts("gyre #{VERSION}")
        else
          configuration = configure(options)
          return serve(configuration, Restart.new(arguments)) unless options.show == :check

          try_listening(configuration, ENV[Restart::INHERITED].lines(chomp: true)) if ENV.key?(Restart::INHERITED)
          @out.puts("#{options.path || "the configuration"} is right")
        end
        DONE
      end

      private

      # @return [Gyre::Log::Configuration]
      def configure(options)
        configuration = options.path ? Log::Configuration.load(options.path) : Log::Configuration.new
        key = ENV["GYRE_LOG_KEY"].to_s
        configuration = configuration.merge(key: key) unless key.empty?
        configuration = configuration.merge(options.values)
        configuration.settings
        (configuration.notices + options.notices).each { |notice| @err.puts("gyre log: #{notice}") }
        configuration
      rescue Log::Configuration::Invalid => error
        raise StartError, error.message if error.mistakes.one?

        raise StartError, "#{error.mistakes.size} mistakes; nothing was started:\n#{error.message}"
      end

      def serve(configuration, restart)
        require "gyre/log/server/handover" # what follows takes longer to load than a mistake to tell
        require "gyre/log/server"
        check_backend
        pidfile = configuration.pidfile && Pidfile.new(configuration.pidfile)
        pidfile&.check
        raise_descriptor_limit
        trap("XFSZ", "IGNORE") # a limit on the size of files (ulimit -f) is then an error like a full disk, not the end
        return run(configuration, restart, pidfile) if !configuration.daemonize? || Log::Handover.pending?

        Daemon.new(@out, quiet: !pidfile.nil?).start do |daemon|
          run(configuration, restart, pidfile) { daemon.ready(streams(configuration)) }
        rescue StartError => error
          @err.puts("gyre log: #{error.message}")
          FAILED
        end
      end

      def check_backend
        LogCommand.require_native("the log server")
        Loop.backend
      rescue ArgumentError, RuntimeError => error
        raise StartError, "GYRE_BACKEND: #{error.message}"
      end

      # A program that reads that it listens, or finds its pidfile, may send signals: so both come when these are heeded.
      def run(configuration, restart, pidfile)
        server = listen(configuration, restart)
        complete = server.run do
          pidfile&.write
          announce(server, configuration)
          yield if block_given?
        end
        complete ? DONE : FAILED
      ensure
        pidfile&.remove
      end

      def listen(configuration, restart)
        listening { Log::Server.new(**configuration.settings, report: @err, restart: restart).listen }
      end

      # Without serving: the process that is to be replaced still does.
      def try_listening(configuration, inherited)
        require "gyre/log/server/input"
        bind, inputs, tls = configuration.settings.values_at(:bind, :inputs, :tls)
        listening do
          fresh = Log::Input.all(bind, inputs || [], tls).reject { |input| inherited.include?(input.to_s) }
          fresh.flat_map(&:bind).each(&:close)
        end
      end

      def listening
        yield
      rescue ArgumentError, SocketError => error
        raise StartError, error.message
      rescue SystemCallError => error
        raise StartError, advice(error)
      end

      def announce(server, configuration)
        endpoints = server.endpoints.map(&:to_s)
        @err.puts("gyre log: listens on #{endpoints.join(", ")}; services without a log of their own go to " \
                  "#{configuration.default_log}; process #{Process.pid}")
      end

      # @return [Array<IO>] standard streams that are logs
      def streams(configuration)
        names = [configuration.default_log, *configuration.settings[:logs].map { |log| log[:logfile] }]
        { "STDOUT" => $stdout, "STDERR" => $stderr }.values_at(*(names & %w[STDOUT STDERR]))
      end

      # What was tried is in the message already (Gyre::Endpoint#bind); this adds what to do.
      def advice(error)
        tried = error.message[/ - (.*)\z/m, 1] or return error.message
        text = "#{tried}: #{error.class.new.message.downcase}"
        port = tried[/:(\d+)\z/, 1]
        case error
        when Errno::EADDRINUSE
          "#{text}. Choose another with #{port ? "-p" : "-b"}, or stop the server that holds it" \
          "#{"; `ss -ltnp 'sport = :#{port}'` shows which process does" if port}"
        when Errno::EACCES        then port ? "#{text}. Ports below 1024 are for root: choose another with -p" : text
        when Errno::ENOENT        then tried.include?("unix") ? "#{text}. Make its folder first, or choose another with -b" : text
        when Errno::EADDRNOTAVAIL then "#{text} on this machine. Choose another with -h"
        else text
        end
      end

      # Each connection is a descriptor, and the usual soft limit is 1,024.
      def raise_descriptor_limit
        soft, hard = Process.getrlimit(:NOFILE)
        wanted = [hard, DESCRIPTORS_LIMIT].min
        Process.setrlimit(:NOFILE, wanted, hard) if wanted > soft
      rescue SystemCallError, NotImplementedError
        nil # not allowed, or not known here: the limit stays
      end
    end
  end
end
