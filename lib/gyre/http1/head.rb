# frozen_string_literal: true

# The bytes of a response head (RFC 9112, section 4), for the portable connection; the native one has its own in C.
# Checks what an app wants to send, and leaves out what is the server's to say. It writes nothing and keeps no state
# but the date of this second.

require "gyre/http1/reason"

module Gyre
  module HTTP1
    # Response heads as BINARY Strings.
    module Head
      # RFC 9110, section 5.6.2.
      TOKEN = /\A[!#$%&'*+\-.^_`|~0-9A-Za-z]+\z/
      # What splits a response when it gets into a header (RFC 9110, section 5.5).
      FORBIDDEN = /[\r\n\0]/
      # Fields that the server writes by itself.
      OWN = %w[content-length transfer-encoding connection].freeze
      private_constant :TOKEN, :FORBIDDEN, :OWN

      class << self
        # @param status [Integer]
        # @param headers [Hash{String => String, Array<String>}]
        # @param framing [Integer, :chunked, :close, :raw, nil] see Connection
        # @param connection [String, nil] the connection field's value
        # @return [String]
        # @raise [ArgumentError] a name or value that must not be sent
        def compose(status, headers, framing, connection)
          head = String.new("HTTP/1.1 #{status} #{REASONS[status]}\r\n", encoding: Encoding::BINARY)
          dated = fields(head, headers, own: framing != :raw)
          head << "date: " << date << "\r\n" unless dated || status < 200
          case framing
          when Integer  then head << "content-length: #{framing}\r\n"
          when :chunked then head << "transfer-encoding: chunked\r\n"
          end
          head << "connection: " << connection << "\r\n" if connection
          head << "\r\n"
        end

        # @param status [Integer] 100 to 199, but not 101
        # @param headers [Hash]
        # @return [String]
        # @raise [ArgumentError]
        def interim(status, headers)
          head = String.new("HTTP/1.1 #{status} #{REASONS[status]}\r\n", encoding: Encoding::BINARY)
          fields(head, headers, own: true)
          head << "\r\n"
        end

        # @param headers [Hash]
        # @return [Boolean] the app asks for the end of the connection
        def close?(headers)
          headers.any? do |name, value|
            name.casecmp?("connection") && Array(value).any? { |line| line.match?(/(?:\A|,)[ \t]*close[ \t]*(?:,|\z)/i) }
          end
        end

        # @return [String] the present time as RFC 9110, section 5.6.7 has it
        def date
          now = Time.now.to_i
          return @date if now == @date_at

          @date_at = now
          @date = Time.at(now).utc.strftime("%a, %d %b %Y %H:%M:%S GMT").freeze
        end

        private

        # @return [Boolean] a date was among them
        def fields(head, headers, own:)
          dated = false
          headers.each do |name, value|
            raise ArgumentError, "header name #{name.inspect} is no token" unless name.is_a?(String) && TOKEN.match?(name)

            lower = name.downcase
            next if lower.start_with?("rack.") || (own && OWN.include?(lower))

            dated ||= lower == "date"
            value.is_a?(Array) ? value.each { |line| field(head, name, line) } : field(head, name, value)
          end
          dated
        end

        def field(head, name, value)
          bytes = value.is_a?(String) && !value.ascii_only? ? value.b : value
          if !bytes.is_a?(String) || FORBIDDEN.match?(bytes)
            raise ArgumentError, "header #{name} is #{value.inspect}, which must not be sent"
          end

          head << name << ": " << bytes << "\r\n"
        end
      end
    end
  end
end
