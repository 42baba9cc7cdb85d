# frozen_string_literal: true

# The log server that the crash test kills: in a forked process, or as the fresh program after USR2,
# which starts this file with its settings. Used by GyreTest::LogCrash::World. It decides about no
# kill itself but those of its mines.

require "json"
require "gyre/cli/process/successor"

module GyreTest
  module LogCrash
    # Settings in, a serving process out. settings: Strings as JSON has them.
    module ServerProcess
      PATH = File.expand_path(__FILE__)

      module_function

      # Runs until it is asked to end.
      def run(settings, ready = nil)
        prepare(settings)
        folder = settings.fetch("folder")
        report = File.open(File.join(folder, "server.err"), "a").tap { |file| file.sync = true }
        server = Gyre::Log::Server.new(bind: settings.fetch("bind"), report: report, interval: settings.fetch("interval"), sync_interval: 1,
                                       logs: logs(settings), default_log: default_log(settings),
                                       successor: fresh_program(settings), handover: Gyre::CLI::Handover.receive)
        serves = -> { ready ? ready.write("!") : File.write(File.join(folder, "fresh"), "!", mode: "a") }
        server.run { serves.call } ? 0 : 1
      end

      # "trace" is not among its levels: what has it is acknowledged and dropped.
      def default_log(settings)
        { logfile: File.join(settings.fetch("folder"), "all.log"), rotate: rotation(settings), levels: %w[debug info warn error fatal] }
      end

      # A service of its own file, beside the one that takes all others.
      def logs(settings)
        [{ services: ["apart"], logfile: File.join(settings.fetch("folder"), apart(settings["moves"].to_i)), levels: %w[info warn error fatal] }]
      end

      # Its file after a number of restarts that moved it.
      def apart(moves) = moves.zero? ? "apart.log" : "apart-#{moves}.log"

      def rotation(settings)
        settings["rotate"]&.transform_keys(&:to_sym)
      end

      def prepare(settings)
        # A small limit makes it compact all the time.
        Gyre::Log::Journal.send(:remove_const, :COMPACT_BYTES)
        Gyre::Log::Journal.const_set(:COMPACT_BYTES, settings.fetch("journal_bytes"))
        trap("XFSZ", "IGNORE")
        trap("USR1") { Process.setrlimit(:FSIZE, Process::RLIM_INFINITY) }
        Process.setrlimit(:FSIZE, settings["room"], Process::RLIM_INFINITY) if settings["room"]
        random = Random.new(settings.fetch("seed"))
        Mines.lay(settings["mine"], random) if settings["mine"]
      end

      def fresh_program(settings)
        command = [RbConfig.ruby, "-w", *$LOAD_PATH.grep(/gyre|lib\z|test\z/).first(3).map { |path| "-I#{path}" }, PATH]
        moves = settings["moves"]
        command << JSON.generate(settings.merge("mine" => nil, "room" => nil, "moves" => moves && (moves + 1)))
        Gyre::CLI::Successor.new("program", command: command).tap { |successor| successor.define_singleton_method(:rehearse) { |*| nil } }
      end
    end
  end
end

if $PROGRAM_NAME == GyreTest::LogCrash::ServerProcess::PATH
  require "gyre/log"
  require "gyre/log/server"
  require_relative "mines"
  exit GyreTest::LogCrash::ServerProcess.run(JSON.parse(ARGV.fetch(0)))
end
