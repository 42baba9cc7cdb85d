# frozen_string_literal: true

# `gyre log [serve]`: runs a Gyre::Log::Server from configuration and flags, after a complete check.

require "gyre/cli/listen_errors"
require "gyre/cli/log"
require "gyre/cli/log/configuration"
require "gyre/cli/process/handover"
require "gyre/cli/process/absent_steps"
require "gyre/cli/process/identity"
require "gyre/cli/process/service_manager"

module Gyre
  module CLI
    module Log
      # Takes Analogger's flags with their long forms, and further flags.
      class Serve < Command
        BANNER = <<~TEXT
          Collects log messages from other programs and writes them to files.

          Usage: gyre log [serve] [options]
                 gyre log send SERVICE SEVERITY [MESSAGE]
                 gyre log tail [SERVICE]
                 gyre log status
                 gyre log reopen

          Without a configuration it listens on 127.0.0.1:6766 and writes to ./log.
          A flag wins over the file, where its long name is a key (default_log).
          Analogger's configurations and command lines work as they are.
        TEXT
        FOOTER = "\nSignals: INT and TERM write everything and end. HUP reopens the files.\n" \
                 "         USR2 restarts the program and refuses no new connection meanwhile."
        # Analogger's long flags, with Gyre's names.
        ANALOGGER = { "--default" => "--default-log", "--syncinterval" => "--sync-interval", "--writepid" => "--pidfile" }.freeze
        KEY_IS_VISIBLE = "the key is on the command line, where every user of this machine can see it (ps): " \
                         "put it into GYRE_LOG_KEY, or into a file and that into key_file"

        attr_reader :values
        attr_reader :path
        attr_reader :notices

        def initialize(**streams)
          super
          @values = {}
          @notices = []
        end

        def flags
          Flags.new(BANNER, aliases: ANALOGGER, dash: %w[-d --default-log], footer: FOOTER) do |flags|
            # The block completes missing arguments: those of Analogger's flags are all optional.
            flags.table(Configuration::SETTINGS, @values) { |row, value| complete(flags, row.name, value) }
            flags.separator "\nOthers:"
            flags.on("-c", "--config FILE", "the configuration, YAML: Analogger's or more") { |value| @path = value }
            flags.on("-r", "--controlkey [KEY]", "does nothing, as in Analogger") { nil }
            flags.on("--check", "only report mistakes in the configuration") { @check = true }
          end
        end

        def call(words)
          refuse_words(words)
          @handover = Handover.receive
          configuration = configure
          return serve(configuration) unless @check

          try_listening(configuration) if @handover
          @out.puts("#{path || "configuration"} OK")
          DONE
        end

        private

        def complete(flags, name, value)
          case name
          when :host then flags.ask(:help) unless value
          when :pidfile then value ||= "analogger.pid"
          when :key then @notices << KEY_IS_VISIBLE if value
          end
          Configuration::Rules.writable(value) if value && %i[default_log pidfile].include?(name)
          value
        end

        # Uses the text that a former program has checked, even if the file has changed since.
        def configure
          text = (@handover && @handover["configuration"]) || Configuration.read(path) if path
          configuration = text ? Configuration.parse(text, path, places: true) : Configuration.new
          configuration = configuration.with_environment.merge(values)
          configuration.settings
          (configuration.notices + notices).each { |notice| report(notice) }
          configuration
        rescue Configuration::Invalid => error
          raise StartError, error.message if error.mistakes.one?

          raise StartError, "#{error.mistakes.size} mistakes; nothing was started:\n#{error.message}"
        end

        def serve(configuration)
          require "gyre/cli/process/successor" # loads slowly, so mistakes are reported first
          require "gyre/log/server"
          CLI.require_native("the log server")
          identity = Identity.new(*configuration.values.values_at(:user, :group, :pidfile))
          CLI.raise_descriptor_limit
          trap("XFSZ", "IGNORE") # a limit on the size of files (ulimit -f) is then an error like a full disk, not the end
          return run(configuration, identity) if !configuration.values[:daemonize] || @handover

          Daemon.new(@out, quiet: !identity.pidfile_path.nil?).start do |daemon|
            run(configuration, identity) { daemon.ready(streams(configuration)) }
          rescue StartError => error
            report(error.message)
            FAILED
          end
        end

        # Handles signals before it writes the pidfile and prints that it listens, because a reader
        # of these may send a signal at once.
        def run(configuration, identity)
          manager = ServiceManager.new
          server = listen(configuration, identity, manager)
          identity.assume if identity.wanted? # the files are the user's, and only root may be able to make the pidfile
          complete = server.run do
            identity.assume
            identity.leave_former(@handover["pidfile"]) if @handover
            AbsentSteps.report(Gyre::Log::Lifecycle) { |text| report(text) }
            announce(server, configuration)
            manager.attend(Task.current) { "#{server.status[:messages]} messages" }
            manager.ready
            yield if block_given?
            Process.kill(:USR2, Process.pid) if outdated?
          end
          complete ? DONE : FAILED
        ensure
          identity.leave
        end

        # True if the configuration has changed since the former program read it: a USR2 that came
        # while Ruby started was ignored.
        def outdated?
          @handover && path && Configuration.read(path) != @handover["configuration"]
        rescue Configuration::Invalid
          false
        end

        def listen(configuration, identity, manager)
          successor = Successor.new("gyre log") { { configuration: (Configuration.read(path) if path), pidfile: identity.pidfile_path } }
          own = { report: @err, handover: @handover, successor: successor, manager: manager }
          listening_errors do
            server = identity.opening(configuration.default_log) { Gyre::Log::Server.new(**configuration.settings, **own) }
            server.listen
          end
        end

        # Binds the sockets that the new program would not inherit, to find errors while the former
        # program still serves, and closes them.
        def try_listening(configuration)
          require "gyre/log/server/inlet"
          inherited = @handover["listeners"].map { |listener| listener["input"] }
          bind, inputs, tls = configuration.settings.values_at(:bind, :inputs, :tls)
          listening_errors do
            fresh = Gyre::Log::Inlet.all(bind, inputs, tls).reject { |input| inherited.include?(input.to_s) }
            fresh.flat_map(&:bind).each(&:close)
          end
        end

        def listening_errors
          yield
        rescue ArgumentError, SocketError => error
          raise StartError, error.message
        rescue SystemCallError => error
          raise StartError, ListenErrors.explain(error, port: "-p", host: "-h", bind: "-b")
        end

        def announce(server, configuration)
          report("listens on #{server.endpoints.join(", ")}; services without a log of their own go to " \
                 "#{configuration.default_log}; process #{Process.pid}")
        end

        # Prints to standard error, because standard output may be a log.
        def report(message) = @err.puts("gyre log: #{message}")

        def streams(configuration)
          names = [configuration.default_log, *configuration.settings[:logs].map { |log| log[:logfile] }]
          { "STDOUT" => $stdout, "STDERR" => $stderr }.values_at(*(names & %w[STDOUT STDERR]))
        end
      end
    end

    # Detaches from the terminal. The first process waits until the server listens, so that its exit
    # status shows success. Keeps folder and umask.
    class Daemon
      def initialize(out, quiet: false)
        @out = out
        @quiet = quiet
      end

      # Yields in the daemon, which calls {#ready} once it listens. In the first process, returns
      # DONE after that call, otherwise FAILED.
      def start
        reader, @writer = IO.pipe
        child = fork do
          reader.close
          Process.setsid
          exit!(0) if fork # a process that does not lead a session never gets a terminal again
          exit(yield(self))
        end
        @writer.close
        Process.wait(child)
        pid = reader.read
        reader.close
        return FAILED if pid.empty?

        @out.puts("PID #{pid}") unless @quiet
        DONE
      end

      # Releases the terminal and the waiting process. `streams`: standard streams that are logs.
      def ready(streams)
        $stdin.reopen(File::NULL)
        # Closes the output, because its readers, such as $(gyre log -x), wait for its end.
        ([$stdout, $stderr] - streams).each { |stream| stream.reopen(File::NULL, "w") if stream.tty? || stream.equal?($stdout) }
        @writer.write(Process.pid.to_s)
        @writer.close
      end
    end
  end
end
