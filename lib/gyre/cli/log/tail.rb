# frozen_string_literal: true

# `gyre log tail`: prints a server's new log lines, in colours. Waits if the server has gone.

require "gyre/log/entry"
require "gyre/cli/terminal/paint"
require "gyre/cli/log/target"

module Gyre
  module CLI
    module Log
      class Tail < Asking
        BANNER = <<~TEXT
          Follows the log of a server as it is written.

          Usage: gyre log tail [options] [SERVICE]

          Without SERVICE it is all of them. Ctrl-C ends it.
        TEXT
        # First and longest pause, in seconds, between attempts to reach a lost server.
        PAUSES_S = (0.2..2.0).freeze
        GONE = [SystemCallError, SocketError, EOFError, IOError].freeze

        def call(words)
          refuse_words(words.drop(1))
          @paint = Paint.for(@out)
          follow(words.first)
        rescue Interrupt, Errno::EPIPE # Ctrl-C, or the reader has ended (`| head`)
          DONE
        end

        private

        def own_flags(flags) = flags.on("--json", "each line as JSON") { @json = true }

        def follow(service)
          viewer = @target.viewer
          loop do
            viewer.each_line(service, connected: -> { came_back(viewer) }) { |line| show(line) }
            wait(viewer)
          rescue Errno::EPIPE
            raise
          rescue Gyre::Log::Denied, Gyre::Log::Incompatible, ProtocolError => error
            raise StartError, @target.explain(error)
          rescue *GONE => error
            raise StartError, @target.explain(error) unless @connected

            wait(viewer)
          end
        end

        def came_back(viewer)
          @err.puts(@paint.call("gyre log tail: #{viewer} is back", :dim)) if @backoff
          @connected = true
          @backoff = nil
        end

        def wait(viewer)
          @err.puts(@paint.call("gyre log tail: #{viewer} has gone; waiting for it", :dim)) unless @backoff
          @backoff ||= Backoff.new(*PAUSES_S.minmax)
          sleep @backoff.failed
        end

        def show(line)
          entry = Gyre::Log::Entry.parse(line)
          if entry.nil? then @err.puts("gyre log tail: #{@paint.harmless(line)}")
          elsif @json   then @out.puts(Paint.harmless_json(entry.to_json))
          elsif !@out.tty? then @out.write(line, "\n")
          else @out.puts(pretty(entry))
          end
          @out.flush
        end

        # Omits the date, because all lines are new.
        def pretty(entry)
          colour = @paint.severity(entry.severity)
          service, severity, message = entry.to_a.drop(1).map { |field| @paint.harmless(field) }
          message = @paint.call(message, colour) if %i[dim red alarm].include?(colour)
          "#{@paint.call(entry.time[-8..], :dim)} #{@paint.call(service, :cyan)} #{@paint.call(severity.ljust(5), colour)} #{message}"
        end
      end
    end
  end
end
