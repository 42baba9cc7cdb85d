# frozen_string_literal: true

# SmtpClient: sends a message to a mail server (RFC 5321), with STARTTLS and AUTH PLAIN.
require "gyre/event_machine/protocols/line_text2"

module Gyre
  module EventMachine
    module Protocols
      # Sends a message.
      #
      #   greeting -> ehlo [-> starttls -> ehlo] [-> auth] -> mail from -> rcpt to … -> data -> quit
      class SmtpClient < Connection
        include Deferrable
        include LineText2

        # The code of a step's reply.
        EXPECTED = { greeting: 220, ehlo: 250, starttls: 220, auth: 235, mail_from: 250, data: 354, message: 250 }.freeze
        private_constant :EXPECTED

        # @param args [Hash] EventMachine's; `:domain` is for EHLO, `:content` a raw message
        # @return [Deferrable] fails with `{code:, message:}`
        def self.send(args = {})
          args = { port: 25, to: [] }.merge(args)
          args[:to] = [args[:to]] unless args[:to].is_a?(Array)
          EventMachine.connect(args[:host] || "127.0.0.1", args[:port], self) { |client| client.args = args }
        end

        attr_writer :args

        def initialize(*)
          super
          @args = {}
          @reply = []
          @step = :greeting
          @recipients = []
        end

        # @param line [String]
        def receive_line(line)
          $stdout.puts("S: #{line}") if @args[:verbose]
          @reply << line[4..].to_s
          return if line[3] == "-"

          code = line.to_i
          reply = @reply.join("\n")
          @reply = []
          return recipient(code, reply) if @step == :recipient

          code == EXPECTED.fetch(@step) ? __send__(:"after_#{@step}") : lose(code, reply)
        end

        # Fails unless the message was accepted.
        def unbind
          lose(900, "the connection ended during #{@step}") unless @over
        end

        private

        def after_greeting = ask(:ehlo, "EHLO #{@args[:domain]}")

        def after_ehlo
          return ask(:starttls, "STARTTLS") if @args[:starttls] && !@encrypted

          @args[:auth] ? authenticate : after_auth
        end

        def after_starttls
          @encrypted = true
          lt2_drop
          start_tls(**@args.fetch(:tls, {}))
          after_greeting
        end

        def after_auth = ask(:mail_from, "MAIL FROM: <#{@args[:from]}>")

        def after_mail_from
          recipient = @args[:to][@recipients.size]
          recipient ? ask(:recipient, "RCPT TO: <#{recipient}>") : lose(900, "no recipients")
        end

        # Fails only if all recipients are refused.
        def recipient(code, reply)
          @recipients << code
          return after_mail_from if @recipients.size < @args[:to].size

          @recipients.none? { |each| each.between?(200, 299) } ? lose(code, reply) : ask(:data, "DATA")
        end

        def after_data
          @step = :message
          send_data(message)
        end

        def after_message
          @over = true
          say("QUIT")
          succeed(@recipients)
          close_connection_after_writing
        end

        def ask(step, line)
          @step = step
          say(line)
        end

        def say(line)
          raise ArgumentError, "a line break in an SMTP command: #{line.inspect}" if line.match?(/[\r\n]/)

          $stdout.puts("C: #{line}") if @args[:verbose]
          send_data("#{line}\r\n")
        end

        def authenticate
          auth = @args[:auth]
          return lose(900, "unknown type of authentication: #{auth[:type].inspect}") unless auth[:type] == :plain

          password = auth[:password].respond_to?(:call) ? auth[:password].call : auth[:password]
          ask(:auth, "AUTH PLAIN #{["\0#{auth[:username]}\0#{password}"].pack("m0")}")
        end

        def message
          return Array(@args[:content]).join if @args[:content]

          text = @args[:message] ? @args[:message].to_s : header_and_body
          text += "\r\n" unless text.end_with?("\r\n")
          "#{escape_leading_dots(text)}.\r\n"
        end

        def header_and_body
          header = @args[:header] || {}
          lines = header.is_a?(Hash) ? header.map { |name, value| "#{name}: #{value}" } : Array(header).flat_map { |text| text.split(/\r?\n/) }
          "#{[*lines, "", *Array(@args[:body])].join("\r\n")}\r\n"
        end

        def escape_leading_dots(text) = text.gsub(/^\./, "..")

        def lose(code, message)
          @over = true
          self.fail({ code: code, message: message })
          close_connection
        end
      end
    end
  end
end
