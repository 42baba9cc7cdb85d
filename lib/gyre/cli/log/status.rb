# frozen_string_literal: true

# `gyre log status`: a server's figures as a table, as JSON, or again and again. Report makes the
# table. It changes nothing at the server.

require "io/console"
require "json"
require "gyre/cli/log"
require "gyre/cli/log/paint"
require "gyre/cli/log/report"
require "gyre/cli/log/target"

module Gyre
  module CLI
    module Log
      # One look at the figures, or many.
      class Status < Command
        BANNER = <<~TEXT
          Shows what a log server is doing.

          Usage: gyre log status [options]
        TEXT
        INTERVAL_S = 1.0
        # Cursor to the corner, and lines that are too long are cut, for wrapped ones would push the
        # first away; rest of a line away; rest of the screen away, and lines wrap again.
        HOME = "\e[?7l\e[H"
        REST_OF_LINE = "\e[K"
        REST = "\e[J\e[?7h"
        private_constant :HOME, :REST_OF_LINE, :REST

        # (see Command#initialize)
        def initialize(**streams)
          super
          @target = Target.new
        end

        # (see Command#flags)
        def flags
          Flags.new(BANNER) do |flags|
            @target.declare(flags)
            flags.separator "\nHow:"
            flags.on("--json", "as the server sends it") { @json = true }
            flags.on("--watch [SECONDS]", "again and again (every second), until Ctrl-C") do |value|
              @watch = value ? Values.span(value) : INTERVAL_S
            end
          end
        end

        # The exit status is 0 also when an output is in trouble.
        # (see Command#call)
        def call(words)
          refuse_words(words)
          viewer = @target.viewer
          @watch ? watch(viewer) : show(viewer)
          DONE
        rescue Interrupt, Errno::EPIPE
          DONE
        end

        private

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
end
