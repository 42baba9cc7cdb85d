# frozen_string_literal: true

# `gyre log send`: sends a message, or the lines of standard input. The exit status tells whether
# the server has stored all of them. Keeps nothing for later unless --spool is given.

require "gyre/log/client/sending"
require "gyre/cli/log/target"

module Gyre
  module CLI
    module Log
      class Send < Asking
        BANNER = <<~TEXT
          Sends messages to a log server, and waits until they are stored there.

          Usage: gyre log send [options] SERVICE SEVERITY [MESSAGE]
                 program | gyre log send [options] SERVICE SEVERITY

          Without MESSAGE it is each line of standard input, with its bytes as they are.
          The exit status is 0 when the server has stored everything, and 1 otherwise.
        TEXT
        # A log client that is not a Logger.
        class Client
          include Gyre::Log::Sending

          def initialize(service, **options) = open_sender(service, **options)

          def log(severity, message) = append(severity, message)
        end

        WITHIN_S = 10
        # Maximum seconds of one attempt to connect. After a failure, further attempts are
        # made only with --within.
        FIRST_TRY_S = 0.3
        HOPELESS = [Errno::ECONNREFUSED, Errno::ENOENT, Errno::EACCES, Errno::EHOSTUNREACH, Errno::ENETUNREACH, SocketError,
                    TLS::Error].freeze

        def initialize(**streams)
          super
          @within_s = WITHIN_S
          @reports = []
        end

        def call(words)
          service, severity, *message = words
          raise UsageError, "name the service and the severity, as in: gyre log send backup info done" unless severity

          deliver(service, severity, message)
        end

        private

        def own_flags(flags)
          flags.on("--within SECONDS", "how long to wait for the server (#{WITHIN_S}, and not", "for one that is not there)") do |value|
            @within_s = SECONDS.check(value)
            @patient = true
          end
          flags.on("--spool FOLDER", "keep messages there that the server has not taken; the", "next one with this service sends it") do |value|
            @spool = value
          end
          flags.on("--unacknowledged", "to an Analogger server, which does not acknowledge", "messages") { @unacknowledged = true }
        end

        def deliver(service, severity, words)
          client = client(service)
          reach(client)
          words.empty? ? log_lines(client, severity) : log(client, severity, words.join(" "))
          return complain(client, why(client)) unless stored?(client)

          client.close(@within_s) # also sends messages that an earlier client has spooled
          @left_out ? FAILED : DONE
        rescue Gyre::Log::SpoolFull => error
          complain(client, "#{"line #{@line} and all later ones were not taken: " if @line}#{error.message}")
        rescue Gyre::Log::Denied, Gyre::Log::Incompatible => error
          raise StartError, @target.explain(error)
        rescue ArgumentError => error
          raise UsageError, error.message
        ensure
          client&.close(0)
        end

        def client(service)
          endpoint = @target.endpoint
          CLI.require_native("the log client")
          Client.new(service, address: endpoint, key: @target.key, tls: @target.tls, spool: @spool || false,
                              acknowledged: !@unacknowledged, connect_timeout: @within_s,
                              when_full: @spool ? :raise : :block, # without a server and a disk it would block without end
                              report: ->(text) { @reports << text })
        end

        # Connects before any input is read. Raises StartError if that fails and no spool is set.
        def reach(client)
          @reached = unless_refused { connected?(client) }
          raise StartError, why(client) unless @reached || @spool
        end

        # If the server refuses this client, raises without a spool; with a spool returns nil.
        def unless_refused
          yield
        rescue Gyre::Log::Denied, Gyre::Log::Incompatible
          raise unless @spool
        end

        def connected?(client)
          Clock.within(@within_s) do |left|
            return true if client.connect([FIRST_TRY_S, left].min)
            break if !@patient && HOPELESS.any? { |kind| client.trouble.is_a?(kind) }
          end
        end

        def log_lines(client, severity)
          @input.binmode.each_line(chomp: true).with_index(1) do |line, number|
            @line = number
            log(client, severity, line)
          rescue ArgumentError => error
            @left_out = true
            @err.puts("gyre log send: line #{number} is left out: #{error.message}")
          end
        end

        def log(client, severity, message) = unless_refused { client.log(severity, message) }

        def stored?(client) = unless_refused { (@reached || client.stats[:state] == :connected) && client.flush(@within_s) }

        # Returns why messages are not stored.
        def why(client)
          return "after #{@within_s} s the server has not confirmed that it has everything" if client.stats[:state] == :connected

          @target.explain(client.trouble || Errno::ETIMEDOUT.new)
        end

        def complain(client, why)
          client.close(0)
          @err.puts("gyre log send: #{[why, *left(client.stats)].join("; ")}")
          FAILED
        end

        def left(stats)
          count = stats[:logged] - stats[:acknowledged]
          return [] if count.zero?

          kept = @spool && stats[:dropped].zero? && stats[:spooled] >= count
          return ["#{Units.count(count, "message is", "messages are")} kept in #{@spool}"] if kept

          ["#{Units.count(count, "message")} may be lost", *(@reports.first if @spool)]
        end
      end
    end
  end
end
