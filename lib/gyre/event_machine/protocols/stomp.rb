# frozen_string_literal: true

# Stomp: frames of the Simple Text Oriented Messaging Protocol.
require "gyre/event_machine/protocols/lines"

module Gyre
  module EventMachine
    module Protocols
      # Calls receive_msg for each frame.
      module Stomp
        include LineText2

        # A frame: `command`, `header` (a Hash of Strings), `body`.
        Message = Struct.new(:command, :header, :body) do
          alias_method :headers, :header
        end

        # Sends CONNECT.
        # @param parameters [Hash] headers, such as `login:` and `passcode:`
        def connect(parameters = {}) = send_frame("CONNECT", parameters)

        # Sends SEND.
        # @param destination [String]
        # @param body [#to_s]
        # @param parameters [Hash] further headers
        def send(destination, body, parameters = {}) = send_frame("SEND", parameters.merge(destination: destination), body.to_s)

        # Sends SUBSCRIBE.
        # @param destination [String]
        # @param ack [Boolean] whether the client acknowledges messages
        def subscribe(destination, ack = false) = send_frame("SUBSCRIBE", { destination: destination, ack: ack ? "client" : "auto" })

        # Sends ACK.
        # @param message_id [String]
        def ack(message_id) = send_frame("ACK", { "message-id": message_id })

        # @param verb [String]
        # @param headers [Hash]
        # @param body [String]
        def send_frame(verb, headers = {}, body = "")
          head = headers.map { |name, value| "#{name}: #{value}\n" }.join
          send_data("#{verb}\n#{head}content-length: #{body.bytesize}\n\n#{body}\0\n")
        end

        # @param message [Message]
        def receive_msg(message); end

        # @param line [String]
        def receive_line(line)
          if @stomp_body
            set_delimiter("\n")
            receive_binary_data(line)
          elsif @stomp_message.nil?
            @stomp_message = Message.new(line, {}, "") unless line.empty?
          elsif line.empty?
            finish_stomp_head
          else
            name, value = line.split(/\s*:\s*/, 2)
            @stomp_message.header[name] = value
          end
        end

        # @param data [String]
        def receive_binary_data(data)
          message = @stomp_message
          message.body = data.delete_suffix("\0")
          @stomp_message = @stomp_body = nil
          receive_msg(message)
        end

        private

        # If content-length is missing, the body is read as a line that ends with a zero byte.
        def finish_stomp_head
          if length = @stomp_message.header["content-length"]
            set_text_mode(Integer(length, 10) + 1)
          else
            set_delimiter("\0")
            @stomp_body = true
          end
        end
      end
    end
  end
end
