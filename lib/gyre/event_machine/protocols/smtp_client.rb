# frozen_string_literal: true

# SmtpClient: sends a message to a mail server (RFC 5321), with STARTTLS and AUTH PLAIN. The
# dialogue runs in one block of next_tick, which waits for each reply.
require "gyre/event_machine/protocols/lines"

module Gyre
  module EventMachine
    module Protocols
      # Sends a message.
      class SmtpClient < Connection
        include Deferrable
        include LineText2

        # @param args [Hash] EventMachine's; `:domain` is for EHLO, `:content` a raw message
        # @return [Deferrable] fails with `{code:, message:}`
        def self.send(args = {})
          EventMachine.connect(args[:host] || "127.0.0.1", args[:port] || 25, self) { |client| client.args = args }
        end

        attr_writer :args

        def initialize(*)
          super
          @args = {}
          @replies = Thread::Queue.new
          @lines = []
        end

        # Begins the dialogue.
        def connection_completed = EventMachine.next_tick { catch(:lost) { converse } }

        # @param line [String]
        def receive_line(line)
          @lines << line[4..].to_s
          return if line[3] == "-"

          @replies << [line.to_i, @lines.join("\n")]
          @lines = []
        end

        # Fails unless the message was accepted.
        def unbind
          @replies.close
          self.fail({ code: 900, message: "the connection ended" }) unless @over
        end

        private

        def converse
          expect(220)
          expect(250, "EHLO #{@args[:domain]}")
          encrypt if @args[:starttls]
          authenticate if @args[:auth]
          expect(250, "MAIL FROM: <#{@args[:from]}>")
          codes = name_recipients
          expect(354, "DATA")
          send_data(message)
          expect(250)
          @over = true
          say("QUIT")
          succeed(codes)
          close_connection_after_writing
        end

        # Begins TLS. Drops replies that came before, as an attacker may have sent them.
        def encrypt
          expect(220, "STARTTLS")
          @lt2_rest = nil
          @lines = []
          @replies.clear
          start_tls(**@args.fetch(:tls, {}))
          expect(250, "EHLO #{@args[:domain]}")
        end

        def authenticate
          type, user, password = @args[:auth].values_at(:type, :username, :password)
          lose(900, "unknown type of authentication: #{type.inspect}") unless type == :plain
          password = password.call if password.respond_to?(:call)
          expect(235, "AUTH PLAIN #{["\0#{user}\0#{password}"].pack("m0")}")
        end

        # Fails only if all recipients are refused. Returns the replies' codes.
        def name_recipients
          last = [900, "no recipients"]
          codes = Array(@args[:to]).map { |recipient| (last = reply_to("RCPT TO: <#{recipient}>")).first }
          codes.any? { |code| code.between?(200, 299) } ? codes : lose(*last)
        end

        def expect(wanted, line = nil)
          code, text = reply_to(line)
          lose(code, text) unless code == wanted
        end

        def reply_to(line)
          say(line) if line
          @replies.pop || throw(:lost)
        end

        def say(line)
          raise ArgumentError, "a line break in an SMTP command: #{line.inspect}" if line.match?(/[\r\n]/)

          send_data("#{line}\r\n")
        end

        def lose(code, text)
          @over = true
          self.fail({ code: code, message: text })
          close_connection
          throw :lost
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
      end
    end
  end
end
