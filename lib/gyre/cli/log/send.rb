# frozen_string_literal: true

# `gyre log send`: one message, or a message for each line of standard input, from a shell. Gyre::LogCommand starts it. It says by
# its exit status whether the server has everything safe; it keeps nothing for later unless it is told where.

require "gyre/log/client"
require "gyre/cli/log/target"

module Gyre
  module LogCommand
    # One use of a client.
    class Send
      BANNER = <<~TEXT
        Sends messages to a log server, and waits until they are stored there.

        Usage: gyre log send [options] SERVICE SEVERITY [MESSAGE]
               program | gyre log send [options] SERVICE SEVERITY

        Without MESSAGE it is each line of standard input. The exit status is 0 when
        the server has stored everything, and 1 otherwise.
      TEXT
      WITHIN_S = 10
      # Unless --within says how long: so soon it is told that nothing listens there, which waiting mends only by luck.
      HASTY_S = 0.3
      HOPELESS = [Errno::ECONNREFUSED, Errno::ENOENT, Errno::EACCES, Errno::EHOSTUNREACH, Errno::ENETUNREACH, SocketError,
                  TLS::Error].freeze
      private_constant :HASTY_S, :HOPELESS

      # @param out [IO]
      # @param err [IO]
      # @param input [IO]
      def initialize(out:, err:, input:)
        @out = out
        @err = err
        @input = input
        @target = Target.new
        @within_s = WITHIN_S
        @patient = false
        @told = []
      end

      # @param arguments [Array<String>]
      # @return [Integer] the exit status
      # @raise [UsageError, StartError]
      def start(arguments)
        refuse_broken_text(arguments)
        usage = Flags.new(BANNER) { |flags| declare(flags) }
        rest = usage.read(arguments)
        return help(usage) if @help

        service, severity, *words = rest
        raise UsageError, "say the service and the severity, as in: gyre log send backup info done" unless severity

        deliver(service, severity, words)
      end

      private

      def declare(flags)
        @target.declare(flags)
        flags.separator "\nHow:"
        flags.on("--within SECONDS", Float, "how long to wait for the server (#{WITHIN_S}, and not", "for one that is not there)") do |value|
          @within_s = value
          @patient = true
        end
        flags.on("--spool FOLDER", "keep there what the server has not taken; the", "next one with this service sends it") { |value| @spool = value }
        flags.on("--unacknowledged", "to a server of Analogger's, which does not say", "what was stored") { @unacknowledged = true }
        flags.on("--help", "print this text") { @help = true }
      end

      def help(usage)
        @out.puts(usage.help)
        DONE
      end

      # In this terminal's encoding. Lines of standard input are sent as they are.
      def refuse_broken_text(words)
        broken = words.find { |word| !word.valid_encoding? } or return
        raise UsageError, "#{broken.scrub("?").inspect} is no valid #{broken.encoding}, which this terminal has (see `locale`): " \
                          "convert it, or give the message on standard input, whose bytes are sent as they are"
      end

      def deliver(service, severity, words)
        client = client(service)
        reach(client)
        words.empty? ? log_lines(client, severity) : log(client, severity, words.join(" "))
        return complain(client, why(client)) unless stored?(client)

        client.close(@within_s) # also what an earlier one has left
        @left_out ? FAILED : DONE
      rescue Log::SpoolFull => error
        complain(client, "#{"line #{@line} and all behind it was not taken: " if @line}#{error.message}")
      rescue Log::Denied, Log::Incompatible => error
        raise StartError, @target.explain(error)
      rescue ArgumentError => error
        raise UsageError, error.message
      ensure
        client&.close(0)
      end

      def client(service)
        endpoint = @target.endpoint
        LogCommand.require_native("the log client")
        Log::Client.new(service, address: endpoint, key: @target.key, tls: @target.tls, spool: @spool || false,
                                 acknowledged: !@unacknowledged, connect_timeout: @within_s,
                                 when_full: @spool ? :raise : :block, # without a server and a disk it would block for ever
                                 report: ->(text) { @told << text })
      end

      # Without a spool nothing is read that could not be sent.
      def reach(client)
        @reached = connected?(client)
        raise StartError, why(client) unless @reached || @spool
      rescue Log::Denied, Log::Incompatible
        raise unless @spool
      end

      def connected?(client)
        return client.connect(@within_s) if @patient

        ends = Clock.now + @within_s
        until client.connect(HASTY_S)
          return false if HOPELESS.any? { |kind| client.trouble.is_a?(kind) } || Clock.now > ends
        end
        true
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

      def log(client, severity, message)
        client.log(severity, message)
      rescue Log::Denied, Log::Incompatible
        raise unless @spool # it has the message
      end

      # @return [Boolean] whether the server has everything; perhaps it came only while lines were read
      def stored?(client)
        (@reached || client.stats[:state] == :connected) && client.flush(@within_s)
      rescue Log::Denied, Log::Incompatible
        @spool ? false : raise
      end

      # The client would go on trying.
      def why(client)
        return "after #{@within_s} s the server has not said that it has everything" if client.stats[:state] == :connected

        @target.explain(client.trouble || Errno::ETIMEDOUT.new)
      end

      def complain(client, why)
        client.close(0)
        @err.puts("gyre log send: #{[why, *left(client.stats)].join("; ")}")
        FAILED
      end

      # @param stats [Hash] of a closed client
      # @return [Array<String>]
      def left(stats)
        count = stats[:logged] - stats[:acknowledged]
        return [] if count.zero?

        messages = count == 1 ? "1 message" : "#{count} messages"
        kept = @spool && stats[:dropped].zero? && stats[:spooled] >= count
        kept ? ["#{messages} #{count == 1 ? "is" : "are"} kept in #{@spool}"] : ["#{messages} may be lost", *(@told.first if @spool)]
      end
    end
  end
end
