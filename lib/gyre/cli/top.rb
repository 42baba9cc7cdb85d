# frozen_string_literal: true

# `gyre top`: shows a server's activity every second. Reads /status from the control socket
# (--state) or the address of --metrics. View makes the lines that Screen draws.

require "gyre/cli"
require "gyre/cli/control_client"
require "gyre/cli/flags"
require "gyre/cli/state_file"

module Gyre
  module CLI
    class Top < Command
      BANNER = <<~TEXT
        Shows what a server does: its workers, connections and running requests,
        again each second. r changes to routes and tasks and back, q ends it.

        Usage: gyre top [options] [ADDRESS]

        ADDRESS is what the server was started with as --metrics (a port, host:port,
        http://host:port or unix:///path). Without it the server is found by its state
        file (gyre serve --state FILE).
      TEXT
      INTERVAL_S = 1.0

      def initialize(**streams)
        super
        @state = StateFile::PATH
        @interval_s = INTERVAL_S
      end

      def flags
        Flags.new(BANNER, help: ["-h", "--help"]) do |flags|
          flags.on("-S", "--state FILE", "the server's state file (#{StateFile::PATH})") { |value| @state = value }
          flags.on("--interval SECONDS", "how often it looks (1)") { |value| @interval_s = SECONDS.check(value) }
          flags.on("--once", "print once, without colours, and exit; also without a terminal") { @once = true }
        end
      end

      def call(words)
        refuse_words(words.drop(1))
        @server = ControlClient.new(words.first || StateFile.new(@state).read.fetch("control"))
        return once if @once || !@out.tty? || !@input.tty?

        Screen.new(@input, @out).run { |screen| watch(screen) }
        DONE
      rescue Interrupt
        DONE
      rescue ArgumentError => error
        raise UsageError, error.message
      end

      private

      def once
        @out.puts(View.new(@server.status).lines)
        DONE
      rescue SystemCallError => error
        raise StartError, "connect to #{@server}: #{error.class.new.message.downcase}. Give the address of the server's --metrics, " \
                          "or its state file (--state FILE)"
      rescue ControlClient::NoAnswer => error
        raise StartError, "#{@server}: #{error.message}"
      end

      # Asks the server in a thread, so that keys work even while the server does not respond.
      def watch(screen)
        before = now = error = nil
        routes = false
        look = nil
        due = Clock.now
        loop do
          if look.nil? && Clock.now >= due
            due = Clock.now + @interval_s
            look = Thread.new { ask.tap { screen.wake } }
          end
          if look && !look.alive?
            found, error = look.value
            before, now = now, found if found
            look = nil
          end
          screen.draw { |width, height, paint| View.new(now, before, error: error, server: @server, routes: routes).lines(width, height, paint) }
          case screen.wait(look ? @interval_s : [due - Clock.now, 0].max)
          when :quit then return
          when "r" then routes = !routes
          end
        end
      ensure
        look&.kill&.join
      end

      def ask
        [@server.status, nil]
      rescue SystemCallError, ControlClient::NoAnswer, IOError => error
        [nil, error.message]
      end
    end
  end
end

require "gyre/cli/terminal/screen"
require "gyre/cli/top/view"
