# frozen_string_literal: true

# One query on the wire and its reply: a random id, the name in random case ("0x20",
# draft-vixie-dnsext-dns0x20), and the check that a packet answers it. Made by Gyre::DNS::Resolver
# for a question, or of a client's query that is passed on. Has no socket and no clock.

require "gyre/dns/message"

module Gyre
  module DNS
    class Query
      HEADER_BYTES = 12
      # FORMERR, SERVFAIL, NOTIMP and REFUSED: after these another server is asked, which may know
      # the answer.
      FAILURES = [1, 2, 4, 5].freeze
      # Codes with which servers respond that do not know EDNS (RFC 6891, section 7).
      UNKNOWN_EDNS = [1, 4].freeze
      # The first bytes of a query without the RD bit.
      HEADER = /\A..[\x00-\x7f].\x00\x01/mn.freeze
      PADDED_BYTES, PADDING = 128, 12 # a multiple, and the code of the option (RFC 7830)
      private_constant :HEADER, :PADDED_BYTES, :PADDING

      # @param name [String]
      # @param type [Integer]
      # @raise [ArgumentError] it cannot be a name
      def self.ask(name, type)
        new(Message.query(name, type).encode, edns: true)
      end

      # @return [Query, nil] nil unless the bytes are a query with one question
      def self.wrap(bytes)
        return unless bytes.b.match?(HEADER)

        query = new(bytes)
        query if query.bytes
      end

      # @return [String, nil] the reply that counts, or else the last one of a server that could not
      #   answer
      attr_reader :reply
      # @return [ServerAddress] its server
      attr_reader :server
      # @return [String, nil] as sent
      attr_reader :bytes

      # @return [Array<String>] servers and reasons
      attr_reader :failures

      # @return [String] the reason for the missing reply
      def failure = failures.empty? ? "no response in time" : failures.uniq.first(3).join(", ")

      # @param edns [Boolean] whether it ends with an OPT record of ours
      def initialize(given, edns: false)
        @given = given
        @edns = edns
        @question_bytes = measure
        @answered = false
        @failures = []
        renew if @question_bytes
      end

      # @return [String] two bytes
      def id = @bytes.byteslice(0, 2)

      # @return [Boolean]
      def answered? = @answered

      # Keeps a packet, for which {#verdict} returned `verdict`.
      def keep(packet, verdict, server)
        return if @answered

        @reply, @server = packet, server
        @answered = verdict == :answer
      end

      # Draws another id and case.
      def renew
        drawn = Random.urandom(3 + (@question_bytes / 8))
        @bytes = @given.b
        @bytes[0, 2] = drawn.byteslice(0, 2)
        bits = drawn.unpack1("@2b*")
        (0...(@question_bytes - 5)).each do |index|
          byte = @bytes.getbyte(HEADER_BYTES + index)
          letter = byte | 0x20
          next unless letter >= 97 && letter <= 122 # lengths are below 64

          @bytes.setbyte(HEADER_BYTES + index, byte ^ 0x20) if bits.getbyte(index) == 49
        end
        @bytes
      end

      # @return [String] the bytes for an encrypted connection, whose length then tells little (RFC
      #   8467, section 4.1). A query that is passed on stays as it is
      def padded
        return @bytes unless @edns

        zeros = -(@bytes.bytesize + 4) % PADDED_BYTES
        @bytes.byteslice(0..-3) << [zeros + 4, PADDING, zeros].pack("n3") << ("\0" * zeros)
      end

      # If the packet comes from a server that may not know EDNS, leaves it out from now on.
      def leave_out_edns?(packet)
        return false unless @edns && UNKNOWN_EDNS.include?(packet.getbyte(3) & 15)

        @edns = false
        @given = @given.byteslice(0, HEADER_BYTES + @question_bytes)
        @given[10, 2] = "\0\0"
        renew
        true
      end

      # @return [Symbol, nil] :answer; :failure, with a code of FAILURES; :truncated, also for an
      #   answer with the name in another case, as only TCP proves where it comes from; nil: answers
      #   something else
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

      # @return [String, nil] the reply with the id and the spelling of the given query
      def restored
        return unless reply

        restored = reply.b
        restored[0, 2] = @given.byteslice(0, 2)
        restored[HEADER_BYTES, @question_bytes] = @given.byteslice(HEADER_BYTES, @question_bytes) if restored.byteslice(4, 2) == "\0\1"
        restored
      end

      private

      # Returns the length of the question, nil if it is none.
      def measure
        at = HEADER_BYTES
        while (length = @given.getbyte(at)) && length.positive?
          return if length > 63

          at += length + 1
        end
        length = at + 5 - HEADER_BYTES
        length if length <= 259 && @given.bytesize >= HEADER_BYTES + length
      end
    end
  end
end
