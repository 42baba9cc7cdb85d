# frozen_string_literal: true

# One query and its reply. Chooses random ids and random case of the name
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
      # Counts of records before a lone OPT record, and that record's first bytes.
      ONE_RECORD, OPT = "\0\0\0\0\0\1".b.freeze, "\0\0\x29".b.freeze
      # Bytes sent; whether they have our own OPT record, and random case.
      Form = Struct.new(:bytes, :edns, :mixed)
      private_constant :HEADER_BYTES, :UNKNOWN_EDNS, :ONE_RECORD, :OPT, :Form

      # Raises ArgumentError for an invalid name.
      def self.ask(name, type) = new(Message.query(name, type).encode, Wire.name(name))

      # Returns nil unless the bytes are a query with one question.
      def self.wrap(bytes)
        message = Message.parse(bytes)
        name = Wire.name(message.questions[0].name) if message.questions.size == 1 && !message.response?
        new(bytes, name, cache_key(message)) if name && bytes.byteslice(HEADER_BYTES, name.bytesize) == name
      rescue FormatError
        nil
      end

      # Returns the key of the replies to equal queries; nil: they are not kept.
      def self.cache_key(message)
        question, edns, flags = message.questions.first, message.edns, message.flags
        return unless question.klass == 1 && flags.anybits?(Message::RD) && (edns.nil? || edns.options.empty?)

        [question.name.downcase, question.type, edns ? edns.flags & EDNS::DO : 0, flags & (Message::CD | Message::AD)]
      end
      private_class_method :cache_key

      attr_reader :cache_key
      # The accepted reply, or the last failure of a server.
      attr_reader :reply
      # The reply's server.
      attr_reader :server
      # The bytes written last.
      attr_reader :bytes

      # "server: reason" for each failure.
      attr_reader :failures

      def failure = failures.empty? ? "no response in time" : failures.uniq.first(3).join(", ")

      def initialize(given, name, cache_key = nil)
        @given = given
        @cache_key = cache_key
        @question_bytes = name.bytesize + 4
        @answered = false
        @failures = []
        @forms = {}
        write
      end

      def answered? = @answered

      # Keeps a packet with its {#verdict}.
      def keep(packet, verdict, server)
        return if @answered

        @reply, @server = packet, server
        @answered = verdict == :answer
      end

      # Returns the bytes to send. Each form has its own id, so that a reply tells its form.
      def write(edns: true, mixed: true)
        edns &&= optional_edns?
        form = @forms[[edns, mixed]] ||= Form.new(draw(edns, mixed), edns, mixed)
        @bytes = form.bytes
      end

      # Returns whether the packet replies to a form without EDNS, although one with EDNS was sent.
      def bare?(packet) = @forms.size > 1 && optional_edns? && form(packet)&.edns == false

      # Returns :answer; :failure for a code in FAILURES; :truncated; :other_case if the packet has
      # the name in another case; :without_edns if the server does not support EDNS; or nil if the
      # packet does not answer the query.
      def verdict(packet)
        return unless packet.bytesize >= HEADER_BYTES && (form = form(packet)) &&
                      (packet.getbyte(2) & 0xf8) == (0x80 | (form.bytes.getbyte(2) & 0x78))

        code, count = packet.getbyte(3) & 15, packet.byteslice(4, 2)
        failure = form.edns && UNKNOWN_EDNS.include?(code) ? :without_edns : :failure if FAILURES.include?(code)
        return (failure if count == "\0\0") unless count == "\0\1" # old servers leave the question out

        question, sent = [packet, form.bytes].map { |bytes| bytes.byteslice(HEADER_BYTES, @question_bytes) }
        if question != sent
          return unless question.to_s.casecmp?(sent)
          return :other_case if form.mixed
        end
        failure || (packet.getbyte(2).anybits?(2) ? :truncated : :answer)
      end

      # Returns the reply. Its id and its spelling of the name are those of the given query.
      def restored
        return unless reply

        restored = reply.b
        restored[0, 2] = @given.byteslice(0, 2)
        restored[HEADER_BYTES, @question_bytes] = @given.byteslice(HEADER_BYTES, @question_bytes) if restored.byteslice(4, 2) == "\0\1"
        restored
      end

      private

      def form(packet) = @forms.each_value.find { |form| packet.start_with?(form.bytes.byteslice(0, 2)) }

      # True if the query ends with an OPT record that requests no signatures.
      def optional_edns?
        opt = @given.byteslice((HEADER_BYTES + @question_bytes)..)
        @given.byteslice(6, 6) == ONE_RECORD && opt.start_with?(OPT) && opt.getbyte(7).nobits?(0x80)
      end

      def draw(edns, mixed)
        drawn = Random.urandom(2 + @question_bytes)
        bytes = @given.b
        if !edns && optional_edns?
          bytes = bytes.byteslice(0, HEADER_BYTES + @question_bytes)
          bytes[10, 2] = "\0\0"
        end
        bytes[0, 2] = drawn.byteslice(0, 2)
        (0...(@question_bytes - 4)).each do |index|
          byte = bytes.getbyte(HEADER_BYTES + index)
          # Changes only letters: the length of a label is below 64.
          changes = mixed && drawn.getbyte(2 + index).odd? && (byte | 0x20).between?(97, 122)
          bytes.setbyte(HEADER_BYTES + index, byte ^ 0x20) if changes
        end
        bytes
      end
    end
  end
end
