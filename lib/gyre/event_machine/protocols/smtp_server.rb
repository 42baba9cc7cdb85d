# frozen_string_literal: true

# SmtpServer: SMTP's server side (RFC 5321), with STARTTLS. Programs derive from it and return true,
# false or a Deferrable from receive_… methods.
require "gyre/event_machine/protocols/lines"

module Gyre
  module EventMachine
    module Protocols
      # Receives mail.
      class SmtpServer < Connection
        include LineText2

        COMMANDS = %w[HELO EHLO QUIT MAIL RCPT DATA RSET STARTTLS].freeze
        REPLIES = { "NOOP" => "250 Ok", "HELP" => "250 Ok, but unimplemented", "VRFY" => "502 Command not implemented",
                    "EXPN" => "502 Command not implemented" }.freeze
        UNKNOWN = "500 Unknown command"
        PARMS = { chunksize: 4000 } # of all connections
        private_constant :COMMANDS, :REPLIES, :UNKNOWN, :PARMS

        # @param parms [Hash] `:starttls`, `:starttls_options`, `:chunksize` (lines)
        def self.parms=(parms)
          PARMS.update(parms)
        end

        def initialize(*)
          super
          @parms = PARMS.dup
          @smtp_session = {}
          @smtp_mail = {}
        end

        # @param parms [Hash] of this connection, see {.parms=}
        def parms=(parms)
          @parms = @parms.merge(parms)
        end

        # Greets in the next tick, so that start_server's block can set parameters first.
        def post_init = EventMachine.next_tick { reply("220 #{get_server_greeting}") }

        # @param line [String]
        def receive_line(line)
          return data_line(line) if @smtp_mail[:data]

          verb, rest = line.split(/\s+/, 2)
          verb = verb.to_s.upcase
          COMMANDS.include?(verb) ? __send__(:"process_#{verb.downcase}", rest.to_s) : reply(REPLIES.fetch(verb, UNKNOWN))
        end

        # Calls {#connection_ended}.
        def unbind = connection_ended

        # Programs may override the methods below: two return a text, the others decide or report.

        # @return [String]
        def get_server_greeting = "EventMachine SMTP Server"

        # @return [String]
        def get_server_domain = "Ok EventMachine SMTP Server"

        # @return [Boolean]
        def receive_ehlo_domain(_domain) = true

        # @param sender [String] with its angle brackets
        # @return [Boolean, Deferrable]
        def receive_sender(_sender) = true

        # @param recipient [String] with its angle brackets
        # @return [Boolean, Deferrable]
        def receive_recipient(_recipient) = true

        # Called for RSET.
        def receive_reset; end

        # @return [Boolean, Deferrable] whether the message may come
        def receive_data_command = true

        # @param lines [Array<String>] of the message, at most `:chunksize`
        def receive_data_chunk(lines); end

        # @return [Boolean, Deferrable] whether the message is accepted
        def receive_message = true

        # Called when the next transaction may begin: after EHLO or HELO, RSET and each message.
        def receive_transaction; end

        # Called when the connection ends.
        def connection_ended; end

        private

        def reply(*lines) = send_data(lines.map { |line| "#{line}\r\n" }.join)

        # Answers as soon as the program has decided; then calls `after`.
        def decide(decision, no, after = nil, &yes)
          ends = { true => yes, false => -> { reply(no) } }.transform_values { |answer| ->(*) { answer.call and after&.call } }
          return ends[decision ? true : false].call unless decision.respond_to?(:set_deferred_status)

          decision.callback(&ends[true])
          decision.errback(&ends[false])
        end

        def process_ehlo(domain)
          greet(domain, ("STARTTLS" if @parms[:starttls] && !@smtp_session[:tls]), "NO-SOLICITING", "8BITMIME")
        end

        def process_helo(domain) = greet(domain)

        def greet(domain, *extensions)
          return reply("550 Requested action not taken") unless receive_ehlo_domain(domain)

          @smtp_session[:greeted] = domain
          forget
          *lines, last = get_server_domain, *extensions.compact
          reply(*lines.map { |line| "250-#{line}" }, "250 #{last}")
        end

        def forget
          @smtp_mail = {}
          receive_transaction
        end

        def process_quit(_)
          reply("221 Ok")
          close_connection_after_writing
        end

        def process_rset(_)
          forget
          receive_reset
          reply("250 Ok")
        end

        def process_starttls(_)
          return reply(UNKNOWN) unless @parms[:starttls]
          return reply("503 TLS Already negotiated") if @smtp_session[:tls]
          return reply("503 EHLO required before STARTTLS") unless @smtp_session[:greeted]

          reply("220 Start TLS negotiation")
          lt2_drop
          start_tls(**@parms.fetch(:starttls_options, {}))
          @smtp_session = { tls: true } # RFC 3207: forgets all that came in clear text
          @smtp_mail = {}
        end

        def process_mail(text)
          return reply("503 MAIL already given") if @smtp_mail[:from]
          return reply("550 This server requires STARTTLS before MAIL FROM") if @parms[:starttls] == :required && !@smtp_session[:tls]
          return reply("501 Syntax: MAIL FROM:<address>") unless sender = text[/\AFROM:\s*(.*)/i, 1]

          decide(receive_sender(sender), "550 sender is unacceptable") { @smtp_mail[:from] = sender and reply("250 Ok") }
        end

        def process_rcpt(text)
          return reply("503 MAIL is required before RCPT") unless @smtp_mail[:from]
          return reply("501 Syntax: RCPT TO:<address>") unless recipient = text[/\ATO:\s*(.*)/i, 1]

          decide(receive_recipient(recipient), "550 recipient is unacceptable") { @smtp_mail[:to] = true and reply("250 Ok") }
        end

        def process_data(_)
          return reply("503 Operation sequence error") unless @smtp_mail[:to]

          decide(receive_data_command, "550 Operation failed") { @smtp_mail[:data] = [] and reply("354 Send it") }
        end

        def data_line(line)
          unless line == "."
            @smtp_mail[:data] << line.delete_prefix(".")
            flush_data if @smtp_mail[:data].size >= @parms[:chunksize]
            return
          end

          flush_data
          @smtp_mail.delete(:data)
          decide(receive_message, "550 Message rejected", -> { forget }) { reply("250 Message accepted") }
        end

        def flush_data
          lines = @smtp_mail[:data]
          @smtp_mail[:data] = []
          receive_data_chunk(lines) unless lines.empty?
        end
      end
    end
  end
end
