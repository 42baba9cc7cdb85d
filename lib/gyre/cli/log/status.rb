# frozen_string_literal: true

# `gyre log status`: prints a server's figures as a table (Report) or JSON, once or repeatedly.

require "json"
require "gyre/cli/terminal/screen"
require "gyre/cli/log/report"
require "gyre/cli/log/target"

module Gyre
  module CLI
    module Log
      class Status < Asking
        BANNER = <<~TEXT
          Shows what a log server is doing.

          Usage: gyre log status [options]
        TEXT
        INTERVAL_S = 1.0

        # Returns DONE even if one of the server's outputs has failed.
        def call(words)
          refuse_words(words)
          viewer = @target.viewer
          @watch ? watch(viewer) : show(viewer)
          DONE
        rescue Interrupt, Errno::EPIPE
          DONE
        end

        private

        def own_flags(flags)
          flags.on("--json", "as the server sends it") { @json = true }
          flags.on("--watch [SECONDS]", "again and again (every second), until Ctrl-C or q") do |value|
            @watch = value ? SECONDS.check(value) : INTERVAL_S
          end
        end

        def watch(viewer)
          return loop { show(viewer) && sleep(@watch) } if @json || !@out.tty? || !@input.tty?

          Screen.new(@input, @out).run do |screen|
            loop do
              status = ask(viewer)
              screen.draw { |width, _height, paint| Report.new(status, viewer.endpoint, paint, width).lines }
              return if screen.wait(@watch) == :quit
            end
          end
        end

        def show(viewer)
          status = ask(viewer)
          columns = @out.tty? ? @out.winsize.last : 80
          @out.puts(@json ? Paint.harmless_json(JSON.generate(status)) : Report.new(status, viewer.endpoint, Paint.for(@out), columns).lines)
          @out.flush
        end

        def ask(viewer)
          viewer.status
        rescue SystemCallError, SocketError, EOFError, Error => error
          raise StartError, @target.explain(error)
        end
      end
    end
  end
end
