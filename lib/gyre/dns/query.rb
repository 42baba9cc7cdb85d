# frozen_string_literal: true

# One query and its reply. Chooses a random id and random case of the name
# (draft-vixie-dnsext-dns0x20) and checks whether a packet answers the query. Made by
# Gyre::DNS::Resolver, or from a client's query. Has no socket and no clock.

require "gyre/dns/message"

module Gyre
  module DNS
    class Query
      HEADER_BYTES = 12
      # FORMERR, SERVFAIL, NOTIMP, REFUSED: another server may know the answer.
      FAILURES = [1, 2, 4, 5].freeze
      # Response codes of servers that do not support EDNS (RFC 6891, section 7).
      UNKNOWN_EDNS = [1, 4].freeze
      private_constant :HEADER_BYTES, :UNKNOWN_EDNS

      # Raises ArgumentError for an invalid name.
      def self.ask(name, type) = new(Message.query(name, type).encode, Wire.name(name), edns: true)

      # Returns nil unless the bytes are a query with one question.
      def self.wrap(bytes)
        message = Message.parse(bytes)
        name = Wire.name(message.questions[0].name) if message.questions.size == 1 && !message.response?
        new(bytes, name) if name && bytes.byteslice(HEADER_BYTES, name.bytesize) == name
      rescue FormatError
        nil
      end

      # The accepted reply, or the last failure of a server.
      attr_reader :reply
      # The reply's server.
      attr_reader :server
      attr_reader :bytes

      # "server: reason" for each failure.
      attr_reader :failures

      def failure = failures.empty? ? "no response in time" : failures.uniq.first(3).join(", ")

      # `edns`: whether the query ends with our own OPT record.
      def initialize(given, name, edns: false)
        @given = given
        @edns = edns
        @question_bytes = name.bytesize + 4
        @answered = false
        @failures = []
        renew
      end

      def id = @bytes.byteslice(0, 2)

      def answered? = @answered

      # Keeps a packet with its {#verdict}.
      def keep(packet, verdict, server)
        return if @answered

        @reply, @server = packet, server
        @answered = verdict == :answer
      end

      # Chooses another random id and case.
      def renew
        drawn = Random.urandom(2 + @question_bytes)
        @bytes = @given.b
        @bytes[0, 2] = drawn.byteslice(0, 2)
        (0...(@question_bytes - 4)).each do |index|
          byte = @bytes.getbyte(HEADER_BYTES + index)
          # Changes only letters: the length of a label is below 64.
          changes = drawn.getbyte(2 + index).odd? && (byte | 0x20).between?(97, 122)
          @bytes.setbyte(HEADER_BYTES + index, byte ^ 0x20) if changes
        end
      end

      # If the packet's code is in UNKNOWN_EDNS, removes EDNS from the query and returns true.
      def leave_out_edns?(packet)
        return false unless @edns && UNKNOWN_EDNS.include?(packet.getbyte(3) & 15)

        @edns = false
        @given = @given.byteslice(0, HEADER_BYTES + @question_bytes)
        @given[10, 2] = "\0\0"
        renew
        true
      end

      # Returns :answer; :failure for a code in FAILURES; :truncated; or nil if the packet does not
      # answer the query. A name in another case is :truncated: a repeat by TCP proves the sender.
      def verdict(packet)
        return if packet.bytesize < HEADER_BYTES || !packet.start_with?(id) ||
                  (packet.getbyte(2) & 0xf8) != (0x80 | (@bytes.getbyte(2) & 0x78))

        failure = FAILURES.include?(packet.getbyte(3) & 15)
        count = packet.byteslice(4, 2)
        return (:failure if failure && count == "\0\0") unless count == "\0\1" # old servers leave the question out

        question, sent = packet.byteslice(HEADER_BYTES, @question_bytes), @bytes.byteslice(HEADER_BYTES, @question_bytes)
        return (:truncated if question.to_s.casecmp?(sent)) if question != sent
        return :truncated if packet.getbyte(2).anybits?(2)

        failure ? :failure : :answer
      end

      # Returns the reply. Its id and its spelling of the name are those of the given query.
      def restored
        return unless reply

        restored = reply.b
        restored[0, 2] = @given.byteslice(0, 2)
        restored[HEADER_BYTES, @question_bytes] = @given.byteslice(HEADER_BYTES, @question_bytes) if restored.byteslice(4, 2) == "\0\1"
        restored
      end
    end
  end
end
