# frozen_string_literal: true

# `gyre log tail`: follows a server's log, with colours on a terminal. Gyre::LogCommand starts it. When the server goes it waits for
# it to come back. It never asks for what was logged before: the files have that.

require "gyre/log/entry"
require "gyre/log/viewer"
require "gyre/cli/log/paint"
require "gyre/cli/log/target"

module Gyre
  module LogCommand
    # One look at the lines as they come.
    class Tail
      BANNER = <<~TEXT
        Follows the log of a server as it is written.

        Usage: gyre log tail [options] [SERVICE]

        Without SERVICE it is all of them. Ctrl-C ends it.
      TEXT
      # Between two tries to reach a server that has gone; it grows up to the second one.
      PAUSES_S = (0.2..2.0).freeze
      GONE = [SystemCallError, SocketError, EOFError, IOError].freeze
      private_constant :GONE

      # @param out [IO]
      # @param err [IO]
      # @param input [IO] is not read
      def initialize(out:, err:, input: nil)
        @out = out
        @err = err
        @input = input
        @target = Target.new
        @json = false
      end

      # @param arguments [Array<String>]
      # @return [Integer] the exit status
      # @raise [UsageError, StartError]
      def start(arguments)
        usage = Flags.new(BANNER) { |flags| declare(flags) }
        rest = usage.read(arguments)
        return help(usage) if @help
        raise UsageError, "one service can be followed, or all; #{rest[1]} is one more" if rest.size > 1

        @paint = Paint.for(@out)
        follow(rest.first)
      rescue Interrupt, Errno::EPIPE # the end that people give it, also by `| head`
        DONE
      end

      private

      def declare(flags)
        @target.declare(flags)
        flags.separator "\nHow:"
        flags.on("--json", "each line as JSON") { @json = true }
        flags.on("--raw", "each line as the server writes it, also on a", "terminal") { @raw = true }
        flags.on("--help", "print this text") { @help = true }
      end

      def help(usage)
        @out.puts(usage.help)
        DONE
      end

      def follow(service)
        viewer = Log::Viewer.new(@target.endpoint, key: @target.key, tls: @target.tls)
        pause = nil
        loop do
          viewer.each_line(service, connected: -> { pause = came_back(viewer, pause) }) { |line| show(line) }
          pause = wait(viewer, pause)
        rescue Errno::EPIPE
          raise
        rescue Log::Denied, Log::Incompatible, ProtocolError => error
          raise StartError, @target.explain(error)
        rescue *GONE => error
          raise StartError, @target.explain(error) unless @been_there

          pause = wait(viewer, pause)
        end
      end

      def came_back(viewer, pause)
        @err.puts(@paint.call("gyre log tail: #{viewer} is back", :dim)) if pause
        @been_there = true
        nil
      end

      def wait(viewer, pause)
        @err.puts(@paint.call("gyre log tail: #{viewer} has gone; waiting for it", :dim)) unless pause
        pause = pause ? [pause * 1.5, PAUSES_S.end].min : PAUSES_S.begin
        sleep pause
        pause
      end

      def show(line)
        entry = Log::Entry.parse(line)
        if entry.nil? then @err.puts("gyre log tail: #{@paint.harmless(line.dup.force_encoding(Encoding::UTF_8).scrub)}")
        elsif @json   then @out.puts(entry.to_json)
        elsif @raw || !@out.tty? then @out.write(line, "\n")
        else @out.puts(pretty(entry))
        end
        @out.flush
      end

      # The day is left out: what is followed is of today.
      def pretty(entry)
        colour = @paint.severity(entry.severity)
        service, severity, message = entry.to_a.drop(1).map { |field| @paint.harmless(field) }
        message = @paint.call(message, colour) if %i[dim red alarm].include?(colour)
        "#{@paint.call(entry.time[-8..], :dim)} #{@paint.call(service, :cyan)} #{@paint.call(severity.ljust(5), colour)} #{message}"
      end
    end
  end
end
