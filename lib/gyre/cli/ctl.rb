# frozen_string_literal: true

# `gyre ctl`: asks a server that was started with --state how it is, and tells it what to do, over
# its control socket. The commands are Gyre::Web::Cluster::Control's.

require "json"
require "gyre/cli"
require "gyre/cli/flags"
require "gyre/cli/state_file"
require "gyre/net/endpoint"
require "gyre/clock"

module Gyre
  module CLI
    # One question or command.
    class Ctl < Command
      BANNER = <<~TEXT
        Asks and commands a server that was started with --state.

        Usage: gyre ctl [options] COMMAND

        Commands:
          status           what its workers do
          rolling-restart  loads the app's code again and replaces the workers one after another (USR1)
          restart          replaces the whole program, and keeps sockets and workers meanwhile (USR2)
          reload           opens log files and reads certificates again (HUP)
          stop             lets running requests finish and ends (TERM)

        A command returns when it is done; its status is 0 only then.
      TEXT
      COMMANDS = %w[status rolling-restart restart reload stop].freeze
      LOOK_S = 0.1
      # How long a server may be away while it becomes another program.
      AWAY_S = 30
      private_constant :LOOK_S, :AWAY_S

      def initialize(**streams)
        super
        @path = StateFile::PATH
      end

      # (see Command#flags)
      def flags
        Flags.new(BANNER, help: ["-h", "--help"]) do |flags|
          flags.on("-S", "--state FILE", "the server's state file (#{StateFile::PATH})") { |value| @path = value }
          flags.on("--json", "print the status as JSON") { @json = true }
        end
      end

      # (see Command#call)
      def call(words)
        command = words.first
        unless COMMANDS.include?(command)
          raise UsageError, "#{command ? "there is no command #{command}." : "which command?"} There are: #{COMMANDS.join(", ")}"
        end

        refuse_words(words.drop(1))
        @state = StateFile.new(@path).read
        case command
        when "status" then print_status
        when "stop" then stop
        when "restart", "rolling-restart" then restart(command)
        else done(command, *post(command))
        end
      end

      private

      def print_status
        _, status = request("GET", "/status")
        @out.puts(@json ? JSON.generate(status) : lines(status))
        DONE
      end

      def lines(status)
        restart = status["restart"]
        ["process #{status["pid"]}, Gyre #{status["version"]}, #{status["urls"].join(" ")}",
         ("last restart: #{restart["kind"]}, #{restart["state"]}#{": #{restart["error"]}" if restart["error"]}" if restart),
         *status["workers"].map { |worker| line(worker) },
         *status["programs"]&.map { |program| "#{program["command"]}: #{program["pid"] ? "process #{program["pid"]}" : "ended"}" }].compact
      end

      def line(worker)
        snapshot = worker["snapshot"] || {}
        memory = worker["resident_bytes"]
        "worker #{worker["name"]}: process #{worker["pid"]}, #{worker["phase"]} for #{worker["age_s"].round} s, code #{worker["generation"]}, " \
          "#{snapshot["requests"].to_i} requests, #{snapshot.dig("connections", "running").to_i} running#{", #{memory >> 20} MB" if memory}"
      end

      def post(command) = request("POST", "/#{command}")

      def done(command, status, answer)
        return @out.puts("#{command}: done") || DONE if status == 200

        @err.puts("gyre ctl: #{command}: #{answer["error"]}")
        FAILED
      end

      # It is over when nothing answers any more.
      def stop
        status, answer = post("stop")
        return done("stop", status, answer) unless status == 200

        sleep(LOOK_S) while alive?
        done("stop", 200, nil)
      end

      def alive?
        Process.kill(0, @state["pid"])
        true
      rescue Errno::EPERM
        true
      rescue Errno::ESRCH
        false
      end

      # A program that becomes another one closes the connection; from then on the new one answers.
      def restart(command)
        status, answer = post(command)
        return done(command, status, answer) if status

        deadline = Clock.now + AWAY_S
        until (last = last_restart(deadline)) && last["state"] != "running"
          sleep(LOOK_S)
        end
        done(command, last["state"] == "done" ? 200 : 409, last)
      end

      def last_restart(deadline)
        request("GET", "/status").last&.fetch("restart")
      rescue StartError
        raise if Clock.now > deadline
      end

      # @return [Array(Integer, Hash), nil] status and answer; nil when the connection ended without
      def request(method, path)
        socket = Endpoint.parse(@state.fetch("control")).connect(nil)
        socket.write("#{method} #{path} HTTP/1.0\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n")
        head, body = socket.read.split("\r\n\r\n", 2)
        [head[/\AHTTP\S+ (\d+)/, 1].to_i, read(body)] if body
      rescue Errno::ECONNRESET, Errno::EPIPE
        nil
      rescue SystemCallError => error
        raise StartError, "#{error.message}. Its state file #{@path} names process #{@state["pid"]}: does it run?"
      ensure
        socket&.close
      end

      def read(body)
        JSON.parse(body)
      rescue JSON::ParserError
        { "error" => body.strip }
      end
    end
  end
end
