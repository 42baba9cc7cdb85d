# frozen_string_literal: true

# `gyre log status`: a server's figures as a table, as JSON, or again and again. Gyre::LogCommand starts it; Gyre::LogCommand::Report
# makes the table. It changes nothing at the server.

require "io/console"
require "json"
require "gyre/log/viewer"
require "gyre/cli/log/paint"
require "gyre/cli/log/report"
require "gyre/cli/log/target"

module Gyre
  module LogCommand
    # One look at the figures, or many.
    class Status
      BANNER = <<~TEXT
        Shows what a log server is doing.

        Usage: gyre log status [options]
      TEXT
      INTERVAL_S = 1.0
      # Cursor to the corner, and lines that are too long are cut, for wrapped ones would push the first away; rest of a line away;
      # rest of the screen away, and lines wrap again.
      HOME = "\e[?7l\e[H"
      REST_OF_LINE = "\e[K"
      REST = "\e[J\e[?7h"
      private_constant :HOME, :REST_OF_LINE, :REST

      # @param out [IO]
      # @param err [IO]
      # @param input [IO] is not read
      def initialize(out:, err:, input: nil)
        @out = out
        @err = err
        @input = input
        @target = Target.new
      end

      # @param arguments [Array<String>]
      # @return [Integer] the exit status: 0 also when an output is in trouble
      # @raise [UsageError, StartError]
      def start(arguments)
        usage = Flags.new(BANNER) { |flags| declare(flags) }
        rest = usage.read(arguments)
        return help(usage) if @help
        raise UsageError, "#{rest.first}: nothing is expected there" if rest.any?

        viewer = Log::Viewer.new(@target.endpoint, key: @target.key, tls: @target.tls)
        @watch ? watch(viewer) : show(viewer)
        DONE
      rescue Interrupt, Errno::EPIPE
        DONE
      end

      private

      def declare(flags)
        @target.declare(flags)
        flags.separator "\nHow:"
        flags.on("--json", "as the server says it") { @json = true }
        flags.on("--watch [SECONDS]", Float, "again and again (every second), until Ctrl-C") { |value| @watch = value || INTERVAL_S }
        flags.on("--help", "print this text") { @help = true }
      end

      def help(usage)
        @out.puts(usage.help)
        DONE
      end

      def show(viewer)
        status = viewer.status
        @out.puts(@json ? JSON.generate(status) : report(viewer, status))
        @out.flush
      rescue Errno::EPIPE
        raise
      rescue SystemCallError, SocketError, EOFError, Error => error
        raise StartError, @target.explain(error)
      end

      def watch(viewer)
        raise UsageError, "--watch: must be a number of seconds above 0" unless @watch.positive?

        loop do
          draw { show(viewer) }
          sleep @watch
        end
      end

      # In place on a terminal, so that nothing flickers.
      def draw
        return yield if @json || !@out.tty?

        @out.write(HOME)
        yield
      ensure
        @out.write(REST) if @out.tty?
      end

      def report(viewer, status)
        rows, columns = @out.tty? ? @out.winsize : [nil, 80]
        lines = Report.new(status, viewer.endpoint, Paint.for(@out), columns).lines
        return lines.join("\n") unless @watch && @out.tty?

        lines.first(rows - 1).map { |line| "#{line}#{REST_OF_LINE}" }.join("\n")
      end
    end
  end
end
