# frozen_string_literal: true

# DNS messages for rules, resolver and `gyre dns query`. ext/gyre/dns/message_object.c parses and
# encodes them. Opens no socket.
require "resolv"
require "gyre/dns/codes"
require "gyre/loop"
require "gyre/parts"

Gyre::Loop.require_native("Gyre::DNS")

Gyre::Loop.define_native(:dns)

module Gyre
  # Server and resolver for DNS.
  module DNS
    extend Parts

    # Returns a name in lower case, escaped as in messages: services have names with spaces.
    # Raises ArgumentError.
    # @api private
    def self.canonical(name) = Wire.text(Wire.name(name)).downcase

    # @api private
    def self.name?(text)
      Wire.name(text) && true
    rescue ArgumentError
      false
    end

    # A DNS message is malformed. The error's status is the rcode FORMERR.
    class FormatError < ProtocolError
      def initialize(message = "malformed message") = super(message, 1)
    end

    # A question: name (String), type and klass (Integers).
    class Question
      # @return [Class] of Resolv::DNS::Resource, such as IN::A
      def resource_class = DNS.resource_class(type, klass)

      # @return [String] such as "example.org IN A"
      def to_s = "#{name} #{DNS.class_name(klass)} #{DNS.type_name(type)}"
    end

    # A record: name (String), type, klass and ttl (Integers), data (bytes with uncompressed names).
    class Record
      # Writes texts as bytes. Does not compress names: the data may move to another message.
      # @api private
      class Encoder < Resolv::DNS::Message::MessageEncoder
        def put_string(text)
          raise ArgumentError, "a text of more than 255 bytes" if text.bytesize > 255

          put_bytes([text.bytesize].pack("C") + text.b)
        end

        def put_bytes(bytes) = super(bytes.b)

        def put_labels(labels, **)
          labels.each { |label| put_label(label) }
          put_bytes("\0")
        end
      end
      private_constant :Encoder

      # @param name [String, Resolv::DNS::Name]
      # @param ttl [Integer] seconds
      # @param resource [Resolv::DNS::Resource]
      # @return [Record]
      # @raise [ArgumentError]
      def self.for(name, ttl, resource)
        data = case resource
               when Resolv::DNS::Resource::IN::A, Resolv::DNS::Resource::IN::AAAA then resource.address.address
               else Encoder.new { |encoder| resource.encode_rdata(encoder) }.to_s.b
               end
        new(name.to_s, resource.class::TypeValue, resource.class::ClassValue, ttl, data)
      rescue NoMethodError, TypeError, NotImplementedError => error
        raise ArgumentError, "#{resource.inspect} cannot be written: #{error.message}"
      end

      # Decodes the data at the first call. Returns a Generic if resolv does not know the type.
      # @return [Resolv::DNS::Resource]
      # @raise [FormatError] the data does not have the type's format
      def resource
        return @resource if @resource

        Resolv::DNS::Message::MessageDecoder.new(data) { |decoder| @resource = DNS.resource_class(type, klass).decode_rdata(decoder) }
        @resource.instance_variable_set(:@ttl, ttl)
        @resource
      rescue Resolv::DNS::DecodeError, ArgumentError, NoMethodError => error
        raise FormatError, "malformed data of #{DNS.type_name(type)}: #{error.message}"
      end
    end

    # An OPT record (RFC 6891): udp_bytes, version, flags (Integers), options (Array of code and
    # bytes).
    EDNS = Struct.new(:udp_bytes, :version, :flags, :options) do
      # Bytes of the largest UDP packet that is safe on all paths (DNS flag day 2020).
      self::UDP_BYTES = 1232
      # Flag: the sender requests DNSSEC signatures (RFC 3225).
      self::DO = 0x8000

      # @api private
      def self.options(data)
        options = []
        until data.empty?
          code, size = data.unpack("nn")
          options << [code, data.byteslice(4, size)]
          data = data.byteslice(4 + size..)
        end
        options
      end

      # @param code [Integer]
      # @return [String, nil] an option's bytes
      def [](code) = code.is_a?(Integer) ? options.assoc(code)&.last : super

      # @return [Boolean]
      def dnssec? = flags.anybits?(EDNS::DO)

      # @return [Record] for a message with this rcode
      # @api private
      def record(rcode)
        data = options.map { |code, bytes| [code, bytes.bytesize].pack("nn") << bytes }.join
        Record.new(".", 41, udp_bytes, rcode >> 4 << 24 | version << 16 | flags, data)
      end
    end

    # A message. `flags` is the header's second word without the rcode. `rcode` includes EDNS's
    # upper bits. The sections answers, authority and additional contain records except OPT, which
    # becomes `edns`.
    Message = Struct.new(:id, :flags, :rcode, :questions, :answers, :authority, :additional, :edns) { remove_method :rcode= }

    class Message
      # Response.
      QR = 0x8000
      # Authoritative answer.
      AA = 0x0400
      # Truncated.
      TC = 0x0200
      # Recursion desired.
      RD = 0x0100
      # Recursion available.
      RA = 0x0080
      # Authentic data (RFC 4035).
      AD = 0x0020
      # Checking disabled (RFC 4035).
      CD = 0x0010
      # Maximum bytes of a message (over TCP).
      BYTES_LIMIT = 65_535

      # @param bytes [String]
      # @return [Message]
      # @raise [FormatError]
      def self.parse(bytes)
        id, flags, questions, *sections, opt = Wire.parse(bytes)
        size, upper, version, more = opt&.unpack("nCCn")
        edns = EDNS.new(size, version, more, EDNS.options(opt.byteslice(8..))) if opt
        new(id, flags & ~15, rcode: flags & 15 | upper.to_i << 4, questions: questions, sections: sections, edns: edns)
      end

      # @param name [String]
      # @param type [String, Integer, Class] see {DNS.type_number}
      # @param klass [String, Integer]
      # @param id [Integer]
      # @param flags [Integer]
      # @param edns [EDNS, nil]
      # @return [Message] a query
      # @raise [ArgumentError]
      def self.query(name, type, klass = 1, id: rand(65_536), flags: RD, edns: EDNS.new(EDNS::UDP_BYTES, 0, 0, []))
        new(id, flags, questions: [Question.new(name, DNS.type_number(type), DNS.class_number(klass))], edns: edns)
      end

      # @param id [Integer]
      # @param flags [Integer]
      # @param rcode [Integer, Symbol]
      # @param questions [Array<Question>]
      # @param sections [Array<Array<Record>>] answers, authority, additional
      # @param edns [EDNS, nil]
      def initialize(id = 0, flags = 0, rcode: 0, questions: [], sections: [[], [], []], edns: nil)
        super(id, flags, rcode, questions, *sections, edns)
      end

      # @param code [Integer, Symbol] such as :NXDomain
      def rcode=(code)
        self[:rcode] = DNS.rcode_number(code)
      end

      # @return [Integer] 0: a query
      def opcode = flags >> 11 & 15

      { response?: QR, authoritative?: AA, truncated?: TC, recursion_desired?: RD, recursion_available?: RA,
        authentic?: AD, checking_disabled?: CD }.each do |name, bit|
        define_method(name) { flags.anybits?(bit) }
      end

      # If the message is longer than `limit`, it is truncated to its questions.
      # @param limit [Integer] bytes
      # @return [String]
      # @raise [ArgumentError, TypeError] a name or a record cannot be written
      def encode(limit: BYTES_LIMIT)
        Wire.encode(id, flags & ~15 | rcode & 15, questions, [answers, authority, additional], edns&.record(rcode), limit)
      end
    end

    # Makes a new class for an unknown type. The module resolv would keep each such class, and
    # clients could send any number of types.
    #
    # @return [Class] of Resolv::DNS::Resource; a new Generic one if resolv does not know the type
    # @api private
    def self.resource_class(type, klass)
      name, classes = "Type#{type}_Class#{klass}", Resolv::DNS::Resource::ClassHash
      known = if classes.is_a?(Hash) then classes[[type, klass]]
              elsif Resolv::DNS::Resource.const_defined?(name, false) then Resolv::DNS::Resource.const_get(name)
              end
      known || Class.new(Resolv::DNS::Resource::Generic) do
        const_set(:TypeValue, type)
        const_set(:ClassValue, klass)
      end
    end
  end
end
