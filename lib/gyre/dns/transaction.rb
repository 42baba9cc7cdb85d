# frozen_string_literal: true

# One question and the response that rules make, with RubyDNS's methods. Made by the extension
# (transaction_object.c). A plain response (a code and up to four addresses) is kept there; any
# other response is a Message.
require "gyre/dns/message"

module Gyre
  module DNS
    # The question that a rule's block answers.
    class Transaction
      # Seconds, as in RubyDNS.
      DEFAULT_TTL = 86_400
      SECTIONS = { answer: :answers, authority: :authority, additional: :additional }.freeze
      private_constant :SECTIONS

      # @return [Message] the request
      # @raise [FormatError] a record behind the question is malformed
      def query = @query ||= Message.parse(bytes)

      # @return [Question]
      def question = Question.new(name, type, 1)

      # @return [Message] to be sent
      def response = @response ||= Message.parse(encode).tap { leave }

      # @return [Addrinfo, nil] the sender's; nil if it is not known
      def remote_address = sockaddr.then { |address| Addrinfo.new(address) unless address.empty? }

      # @return [Hash] remote_address:, and options of {#append!}
      def options = { remote_address: remote_address, **@options.to_h }

      # @return [Class] of Resolv::DNS::Resource, such as IN::A
      def resource_class = DNS.resource_class(type, 1)

      # @return [Object] an option
      def [](key) = options[key]

      # @return [String]
      def to_s = "#{name} #{DNS.type_name(type)}"

      # Adds a resource of the question's class.
      # @param first [Object] first argument of the resource class: an address for IN::A
      # @param ttl [Integer] seconds
      # @param name [String, nil] the record's; nil: the question's
      # @param resource_class [Class, nil] nil: the question's
      # @param section [Symbol] :answer, :authority or :additional
      # @return [true]
      # @raise [ArgumentError] the resource cannot be made from these arguments
      def respond!(first = nil, *more, ttl: nil, name: nil, section: nil, resource_class: nil)
        return respond!(first, *more[0..-2], **more.last) if more.last.is_a?(Hash)
        return true if more.empty? && !(name || section || resource_class) && add_address(first, ttl || DEFAULT_TTL)

        add([(resource_class || self.resource_class).new(first, *more)], { ttl: ttl, name: name, section: section }.compact)
      end

      # Adds resources.
      # @param resources [Array<Resolv::DNS::Resource>]
      # @param options [Hash] ttl:, name:, section: as {#respond!}
      # @return [true]
      def add(resources, options = {})
        options = { name: name, section: :answer, **options, **@options.to_h }
        records = response.public_send(SECTIONS.fetch(options[:section].to_sym))
        resources.each { |resource| records << Record.for(options[:name], options[:ttl] || resource.ttl || DEFAULT_TTL, resource) }
        true
      end

      # Adds the rules' answer to another question, such as a CNAME's target.
      # @param name [String]
      # @param resource_class [Class]
      # @return [true]
      def append!(name, resource_class = nil, options = {})
        type = DNS.type_number(resource_class || self.type)
        response # makes the response a Message
        former_name, former_type, former_options = self.name, self.type, @options
        ask(Wire.text(Wire.name(name.to_s)), type)
        @options = options
        rules.process(self)
        true
      ensure
        ask(former_name, former_type) if former_name
        @options = former_options if former_name
      end

      # Answers with a resolver's reply.
      # @param resolver [Resolver, Upstream]
      # @param force [Boolean] even if the RD flag is not set
      # @param name [String, nil] a name to ask about instead
      # @yieldparam reply [Message] before it is copied
      # @return [Boolean] whether there was a reply
      def passthrough!(resolver, force: false, name: nil, **)
        return fail!(:Refused) && false unless may_recurse?(force || name)

        found = passthrough(resolver, name: name) or return fail!(:ServFail) && false
        yield found if block_given?
        response.flags = found.flags & ~Message::AA | Message::RA | Message::QR
        response.rcode = found.rcode
        SECTIONS.each_value { |section| response.public_send(section).concat(found.public_send(section)) }
        true
      end

      # Answers like {#passthrough!}; if possible, the cache answers, or the upstream's forwarder
      # without a fiber.
      # @api private
      def forward!(resolver)
        return fail!(:Refused) unless may_recurse?

        @resolver = resolver
        @cache_key = [key, type, edns_flags & EDNS::DO, flags & (Message::CD | Message::AD)]
        reply = resolver.cached(@cache_key)
        @adopted = reply && adopt(reply)
        @adopted || resolver.upstream.defer(self) || passthrough!(resolver)
      end

      # Called by the extension with the reply that a forwarder got.
      # @api private
      def keep(reply) = @resolver.keep(@cache_key, reply)

      # @param resolver [Resolver, Upstream]
      # @param name [String, nil]
      # @return [Message, nil] the resolver's reply; nil: none, or malformed
      def passthrough(resolver, name: nil, **)
        edns = EDNS.new(EDNS::UDP_BYTES, 0, edns_flags, []) # for this hop only (RFC 6891)
        flags = Message::RD | self.flags & (Message::CD | Message::AD)
        query = Message.query(name || self.name, type, id: bytes.unpack1("n"), flags: flags, edns: edns)
        resolver.forward(query.encode)&.then { |reply| Message.parse(reply) }
      rescue FormatError
        nil
      end

      # @param rcode [Symbol, Integer] such as :NXDomain
      # @return [true]
      def fail!(rcode)
        number = DNS.rcode_number(rcode)
        return self.rcode = number if plain?

        response.rcode = number
        response.flags &= ~Message::AA if [2, 5].include?(number) # ServFail, Refused
        true
      end
      alias failure! fail!

      # Does nothing, because the response already has the question. Programs of RubyDNS call it.
      def append_question! = nil

      # @return [String, nil] the response; nil if the extension has it
      # @api private
      def result = @adopted || (response.encode(limit: limit) unless plain?)

      private

      def may_recurse?(force = false) = rules.recursive?(sockaddr) && (force || flags.anybits?(Message::RD))

      def flags = bytes.unpack1("@2n")
    end
  end
end
