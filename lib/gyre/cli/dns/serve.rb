# frozen_string_literal: true

# `gyre dns`: makes a running DNS server of a file of rules and of flags. Gyre::DNS::Server serves.
# Opens nothing before rules and zones are read.

require "gyre/cli/dns"
require "gyre/cli/flags"
require "gyre/cli/listen_errors"
require "gyre/cli/process/pidfile"
require "gyre/cli/process/privileges"
require "gyre/signals"
require "gyre/web/logs/log_file"

module Gyre
  module CLI
    module DNS
      class Serve < Command
        BANNER = <<~TEXT
          Serves DNS from zone files and from rules in Ruby.

          Usage: gyre dns [options]
                 gyre dns query [options] NAME [TYPE] [@SERVER]
        TEXT
        FOOTER = "\nSignals: INT and TERM end it. HUP reads rules and zones again, and keeps those of before if that fails."
        TABLE = Settings.new({
          "Answers" => [
            Settings.row(:config, :file, "rules in Ruby: match, otherwise, zone, upstream (see docs/dns.md)", short: "-c"),
            Settings.row(:zone, :text, "a zone and its file", list: true, argument: "ORIGIN=FILE"),
            Settings.row(:upstream, :text, "a name server for other questions, of clients on this machine", list: true, argument: "ADDRESS"),
            Settings.row(:recursion, :text, "a network, instead of this machine, whose questions go upstream", list: true, argument: "NETWORK")
          ],
          "Process" => [
            Settings.row(:bind, :text, "host:port for UDP and TCP, udp://, tcp://, tls://host?cert=FILE&key=FILE", list: true, short: "-b",
              argument: "ADDRESS", usual: "localhost:53"),
            Settings.row(:log, :file, "a line for each response; - is standard output"),
            Settings.row(:metrics, :text, "serves /metrics over HTTP", argument: "ADDRESS"),
            Settings.row(:pidfile, :file, "the process id"),
            Settings.row(:user, :text, "the user once the sockets are open", argument: "NAME"),
            Settings.row(:group, :text, "the group", argument: "NAME")
          ]
        })
        private_constant :TABLE

        def flags
          require "gyre/dns/settings"
          @values, @limits = {}, {}
          Flags.new(BANNER, dash: ["--log"], footer: FOOTER) do |flags|
            flags.table(TABLE, @values)
            flags.table(Gyre::DNS::SETTINGS, @limits)
          end
        end

        def call(words)
          refuse_words(words)
          raise UsageError, "nothing to answer: give --config, --zone or --upstream" unless @values.values_at(:config, :zone, :upstream).any?

          require "gyre/loop" # takes longer to load than a mistake to report
          CLI.require_native("the DNS server")
          require "gyre/dns"
          CLI.raise_descriptor_limit
          privileges = Privileges.new(*@values.values_at(:user, :group))
          pidfile = Pidfile.new(@values[:pidfile]) if @values[:pidfile]
          log = privileges.making(@values[:log]) { open_log }
          server = listen("--bind") { Gyre::DNS::Server.new(*(@values[:bind] || ["localhost:53"]), load: method(:rules), log: log, **@limits) }
          web = listen("--metrics") { metrics(server) }
          privileges.making(@values[:pidfile]) { pidfile.write } if pidfile
          privileges.drop
          run(server, web, log)
          DONE
        ensure
          server&.close
          pidfile&.remove
        end

        private

        def open_log
          case @values[:log]
          when nil then nil
          when "-" then @out
          else Web::LogFile.new(@values[:log])
          end
        rescue SystemCallError => error
          raise StartError, error.message
        end

        def listen(flag)
          yield
        rescue ArgumentError, SyntaxError, LoadError, NameError => error
          raise StartError, error.message
        rescue SystemCallError => error
          raise StartError, ListenErrors.explain(error, port: flag, host: flag)
        end

        def rules
          zones = (@values[:zone] || []).map { |text| text.split("=", 2) }
          wrong = zones.find { |_, path| path.to_s.empty? } and raise ArgumentError, "--zone #{wrong.first}: write ORIGIN=FILE"
          Gyre::DNS::Rules.new.tap do |rules|
            rules.instance_eval(File.read(@values[:config]), File.expand_path(@values[:config])) if @values[:config]
            zones.each { |origin, path| rules.zone(origin, path) }
            rules.upstream(*@values[:upstream])
            rules.recursion(*@values[:recursion]) if @values[:recursion]
          end
        end

        def run(server, web, log)
          server.run do
            task = Task.current
            task.async("metrics", transient: true) { web.run } if web
            @err.puts("gyre dns: listens on #{server.endpoints.join(", ")}; process #{Process.pid}")
            task.async("signals", transient: true) do
              Gyre.signals("INT", "TERM", "HUP").each { |name| name == "HUP" ? reload(server, log) : server.stop }
            end
          end
        end

        def reload(server, log)
          log.reopen if log.is_a?(Web::LogFile)
          server.reload
          @err.puts("gyre dns: rules and zones are read again")
        rescue StandardError, ScriptError => error
          @err.puts("gyre dns: not reloaded, those of before go on: #{error.message}")
        end

        # Counters that Prometheus reads.
        def metrics(server)
          return unless @values[:metrics]

          require "gyre/web/server"
          app = lambda do |_|
            lines = server.stats.map do |name, value|
              gauge = %i[waiting connections].include?(name)
              "# TYPE gyre_dns_#{name}#{"_total" unless gauge} #{gauge ? "gauge" : "counter"}\ngyre_dns_#{name}#{"_total" unless gauge} #{value}\n"
            end
            [200, { "content-type" => "text/plain; version=0.0.4; charset=utf-8" }, lines]
          end
          Web::Server.new(app, bind: @values[:metrics], out: File.open(File::NULL, "w"), signals: false).listen
        end
      end
    end
  end
end
