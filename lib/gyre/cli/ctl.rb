# frozen_string_literal: true

# `gyre ctl`: shows and controls a server with workers over its control socket (ControlClient).

require "gyre/cli"
require "gyre/cli/control_client"
require "gyre/cli/flags"
require "gyre/cli/state_file"
require "gyre/cli/terminal/figures"
require "gyre/cli/terminal/paint"
require "gyre/cluster/process_number"

module Gyre
  module CLI
    class Ctl < Command
      BANNER = <<~TEXT
        Asks and commands a server with workers (gyre serve -w), or with a state file
        (gyre serve --state FILE), by that file.

        Usage: gyre ctl [options] COMMAND

        Commands:
          status           what its workers do
          rolling-restart  loads the app's code again and replaces the workers one
                           after another (USR1)
          restart          replaces the whole program, and keeps sockets and workers
                           meanwhile (USR2)
          reload           opens log files and reads certificates again (HUP)
          renew            orders certificates at once: those that are missing or have
                           failed, else all (--acme)
          stop             lets running requests finish and ends (TERM)

        A command returns when it is done; its status is 0 only then.
      TEXT
      COMMANDS = %w[status rolling-restart restart reload renew stop].freeze
      LOOK_S = 0.1
      # Maximum seconds without a response while a server replaces its program.
      AWAY_S = 30

      def initialize(**streams)
        super
        @path = StateFile::PATH
      end

      def flags
        Flags.new(BANNER, help: ["-h", "--help"]) do |flags|
          flags.on("-S", "--state FILE", "the server's state file (#{StateFile::PATH})") { |value| @path = value }
          flags.on("--json", "print the status as JSON") { @json = true }
        end
      end

      def call(words)
        command = words.first
        unless COMMANDS.include?(command)
          raise UsageError, "#{command ? "unknown command #{command}" : "a command is missing"}; known: #{COMMANDS.join(", ")}"
        end

        refuse_words(words.drop(1))
        @state = StateFile.new(@path).read
        @client = ControlClient.new(@state.fetch("control"))
        command == "status" ? print_status : obey(command)
      rescue SystemCallError, ControlClient::NoAnswer => error
        raise StartError, "#{error.message}. Its state file #{@path} names process #{@state["pid"]}. Is that running?"
      end

      private

      def print_status
        status = @client.status
        @out.puts(@json ? Paint.harmless_json(JSON.generate(status)) : lines(status).map { |line| Paint.harmless(line) })
        DONE
      end

      def lines(status)
        restart = status["restart"]
        ["process #{status["pid"]}, Gyre #{status["version"]}, #{status["urls"].join(" ")}",
         ("last restart: #{restart["kind"]}, #{restart["state"]}#{": #{in_short(restart["error"])}" if restart["error"]}" if restart),
         *status["workers"].map { |worker| line(worker) },
         *status["certificates"]&.map { |each| certificate(each) },
         *status["programs"]&.map { |program| "#{program["command"]}: #{program["pid"] ? "process #{program["pid"]}" : "ended"}" }].compact
      end

      # Returns the first line of an error, which may have a trace.
      def in_short(error)
        first, *rest = error.lines(chomp: true)
        rest.empty? ? first : "#{first} (the server's log has the other lines, and so has --json)"
      end

      def line(worker)
        snapshot = worker["snapshot"] || {}
        memory = worker["resident_bytes"]
        "worker #{worker["name"]}: process #{worker["pid"]}, #{worker["phase"]} for #{worker["age_s"].round} s, code #{worker["generation"]}, " \
          "#{snapshot["requests"].to_i} requests, #{snapshot.dig("connections", "running").to_i} running#{", #{Figures.bytes(memory)}" if memory}"
      end

      def certificate(each)
        expires = each["expires"]
        "certificate #{each["name"]}: #{expires ? "until #{Time.at(expires).utc}" : "missing"}#{"; #{in_short(each["error"])}" if each["error"]}"
      end

      def obey(command)
        error = @client.command(command)
        error = outcome if error == false && command != "stop"
        return fail_with(command, error) if error

        sleep(LOOK_S) while command == "stop" && Cluster::ProcessNumber.taken?(@state["pid"]) # it is over when nothing answers any more
        @out.puts("#{command}: done")
        DONE
      end

      def fail_with(command, error)
        @err.puts("gyre ctl: #{command}: #{Paint.harmless_lines(error.to_s)}")
        FAILED
      end

      # Asks for the restart's result. Reconnects, because the replaced program closed its
      # connection.
      def outcome
        deadline = Clock.now + AWAY_S
        until (last = last_restart(deadline)) && last["state"] != "running"
          sleep(LOOK_S)
        end
        last["error"]
      end

      def last_restart(deadline)
        @client.status["restart"]
      rescue SystemCallError, ControlClient::NoAnswer
        raise if Clock.now > deadline
      end
    end
  end
end
