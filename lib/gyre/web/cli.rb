# frozen_string_literal: true

# `gyre serve`: flags and configuration file in, a running server out. exe/gyre calls it. It reports a mistake in one
# plain message on standard error and never with a trace, and it serves nothing itself: Gyre::Web::Server does.

require "gyre/version"
require "gyre/web/options"
require "gyre/web/rackup_file"

module Gyre
  module Web
    # One start of `gyre serve`.
    class CLI
      DONE = 0    # stopped as it was asked to, also by INT or TERM
      FAILED = 1  # could not start, or broke
      MISUSED = 2 # the command line makes no sense
      INTERRUPTED = 130 # INT before the server ran: 128 + 2, as shells have it

      # More descriptors than this are never of use, and some programs that an app may start close every one they could have.
      DESCRIPTORS_LIMIT = 1 << 20
      private_constant :DESCRIPTORS_LIMIT

      # @param arguments [Array<String>] what follows `gyre serve`
      # @param out [IO]
      # @param err [IO]
      # @return [Integer] the exit status
      def self.start(arguments, out: $stdout, err: $stderr)
        new(out, err).start(arguments)
      end

      def initialize(out, err)
        @out = out
        @err = err
        @pidfile = nil
        @address_flag = "--bind"
      end

      # (see CLI.start)
      def start(arguments)
        options = Options.new(arguments)
        case options.settings[:show]
        when :help    then @out.puts(options.help)
        when :version then @out.puts("gyre #{VERSION}")
        else serve(settings(options.settings))
        end
        DONE
      rescue UsageError => error
        complain("#{error.message}\nRun `gyre serve --help` for the flags.", MISUSED)
      rescue ConfigError, StartError, SocketError => error
        complain(error.message, FAILED)
      rescue SystemCallError => error
        complain(advice(error), FAILED)
      rescue Interrupt
        INTERRUPTED
      end

      private

      # @return [Hash] what the file says, and over it what the flags say
      def settings(flags)
        path = flags[:config] || (Config::PATH if File.file?(Config::PATH))
        path.nil? || path == "-" ? flags : Settings.merge(Config.load(path), flags)
      end

      def serve(settings)
        environment = choose_environment(settings)
        @address_flag = "--port" unless settings[:bind]
        raise_descriptor_limit
        @out.sync = true # what the app prints is to be seen at once, also through a pipe
        app = RackupFile.load(settings[:rackup] || RackupFile::PATH)
        require "gyre/web" # after the app: its mistakes are told sooner
        check_backend
        log = Log.new(notices: (@out unless settings[:quiet]), errors: @err)
        server = server(app, settings, environment, log).listen
        write_pidfile(settings[:pidfile])
        server.run { log.info(Banner.text(server, environment)) }
      ensure
        remove_pidfile
      end

      def check_backend
        Loop.backend
        Loop.require_native("HTTP")
      rescue ExtensionRequired => error
        raise StartError, error.message
      rescue ArgumentError, RuntimeError => error
        raise StartError, "GYRE_BACKEND: #{error.message}"
      end

      def choose_environment(settings)
        environment = settings[:environment] || ENV.values_at("APP_ENV", "RACK_ENV", "RAILS_ENV").compact.first || "development"
        ENV["RACK_ENV"] = environment
      end

      def server(app, settings, environment, log)
        Server.new(
          app,
          bind: Settings.endpoints(settings, environment, default_port: default_port),
          limits: settings[:limits] || {},
          log_format: settings[:log_format] || (settings[:quiet] ? "none" : Settings.default_log_format(environment)),
          shutdown_timeout: settings[:shutdown_timeout] || Settings::SHUTDOWN_TIMEOUT_S,
          out: @out,
          log: log,
          abandon: method(:abandon)
        )
      end

      # As many platforms hand it to the programs they start.
      def default_port
        text = ENV["PORT"].to_s
        return Settings::DEFAULT_PORT if text.empty?

        Settings.check(:port, Integer(text, 10))
      rescue ArgumentError
        raise UsageError, "PORT=#{text} in the environment: must be a port, 0 to 65535"
      end

      # Each connection is a descriptor, and the usual soft limit is 1,024.
      def raise_descriptor_limit
        soft, hard = Process.getrlimit(:NOFILE)
        wanted = [hard, DESCRIPTORS_LIMIT].min
        Process.setrlimit(:NOFILE, wanted, hard) if wanted > soft
      rescue SystemCallError, NotImplementedError
        nil # not allowed, or not known here: the limit stays, and accepting pauses when it is reached
      end

      def write_pidfile(path)
        return unless path

        File.write(path, "#{Process.pid}\n")
        @pidfile = File.expand_path(path)
      end

      # It may be a successor's by now.
      def remove_pidfile
        File.delete(@pidfile) if @pidfile && File.exist?(@pidfile) && File.read(@pidfile).to_i == Process.pid
      end

      # Everything that a normal end does is done by then, but for what would wait for the requests.
      def abandon
        remove_pidfile
        exit!(FAILED)
      end

      # What was tried is in the message already (Gyre::Endpoint#bind); this adds what to do.
      def advice(error)
        tried = error.message[/ - (.*)\z/m, 1] or return error.message
        "#{tried}: #{error.class.new.message.downcase}#{next_step(error, tried)}"
      end

      def next_step(error, tried)
        port = tried[/tcp:.*:(\d+)\z/, 1]
        case error
        when Errno::EADDRINUSE
          ". Choose another with #{@address_flag}, or stop the server that holds it" \
          "#{"; `ss -ltnp 'sport = :#{port}'` shows which process does" if port}"
        when Errno::EACCES        then port ? ". Ports below 1024 are for root: choose another with #{@address_flag}" : folder_advice(tried)
        when Errno::EADDRNOTAVAIL then " on this machine. Choose another with #{@address_flag == "--port" ? "--host" : @address_flag}"
        when Errno::ENOENT        then tried.include?("unix:") ? ". Make its folder first, or choose another with --bind" : nil
        when Errno::EEXIST        then ", and is no socket. Remove it, or choose another with --bind"
        end
      end

      def folder_advice(tried)
        folder = File.dirname(File.expand_path(tried[%r{unix://([^?]*)}, 1] || tried))
        ". #{File.writable?(folder) ? "Its file belongs to another user" : "This user may not write in #{folder}"}"
      end

      def complain(message, status)
        @err.puts("gyre serve: #{message}")
        status
      end
    end
  end
end
