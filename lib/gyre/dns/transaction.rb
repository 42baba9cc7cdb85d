# frozen_string_literal: true

# One question and its response, with RubyDNS's methods. Made by Rules.
require "gyre/dns/message"

module Gyre
  module DNS
    # A question to answer, for the block of a rule.
    class Transaction
      # Seconds, as in RubyDNS.
      DEFAULT_TTL = 86_400
      SECTIONS = { answer: :answers, authority: :authority, additional: :additional }.freeze
      private_constant :SECTIONS

      # @return [Message] the request
      attr_reader :query
      # @return [Question]
      attr_reader :question
      # @return [Message] to be sent
      attr_reader :response

      # @api private
      def initialize(rules, query, question, response, sockaddr, options = {})
        @rules = rules
        @query = query
        @question = question
        @response = response
        @sockaddr = sockaddr
        @options = options
      end

      # @return [Addrinfo, nil] the sender's; nil if it is not known
      def remote_address
        @remote_address ||= Addrinfo.new(@sockaddr) unless @sockaddr.empty?
      end

      # @return [Hash] remote_address:, and options of {#append!}
      def options = { remote_address: remote_address, **@options }

      # @return [String] the question's, without a final dot
      def name = @question.name

      # @return [Integer] the question's
      def type = @question.type

      # @return [Class] of Resolv::DNS::Resource, such as IN::A
      def resource_class = @resource_class ||= @question.resource_class

      # @return [Object] an option
      def [](key) = options[key]

      # @return [String]
      def to_s = "#{name} #{DNS.type_name(type)}"

      # Adds a resource of the question's class.
      # @param arguments [Array] for the resource class's `new`: an address for IN::A, a name for
      #   IN::CNAME
      # @param ttl [Integer] seconds
      # @param name [String, nil] the record's; nil: the question's
      # @param resource_class [Class, nil] nil: the question's
      # @param section [Symbol] :answer, :authority or :additional
      # @return [true]
      # @raise [ArgumentError] the arguments make no such resource
      def respond!(*arguments, **options)
        options = arguments.pop if arguments.last.is_a?(Hash)
        made = options[:resource_class]
        # Avoids objects of resolv for an address.
        data = Wire.address(type, arguments[0]) if made.nil? && arguments.size == 1 && @question.klass == 1
        return add([(made || resource_class).new(*arguments)], options) unless data

        put(options) { |owner, ttl| Record.new(owner, type, 1, ttl || DEFAULT_TTL, data) }
      end

      # Adds resources.
      # @param resources [Array<Resolv::DNS::Resource>]
      # @param options [Hash] ttl:, name:, section: as {#respond!}
      # @return [true]
      def add(resources, options = {})
        resources.each { |resource| put(options) { |owner, ttl| Record.for(owner, ttl || resource.ttl || DEFAULT_TTL, resource) } }
        true
      end

      # Lets rules answer another question into this response, such as a CNAME's target.
      # @param name [String]
      # @param resource_class [Class]
      # @return [true]
      def append!(name, resource_class = nil, options = {})
        resource_class ||= self.resource_class
        question = Question.new(name.to_s, resource_class::TypeValue, resource_class::ClassValue)
        @rules.process(Transaction.new(@rules, @query, question, @response, @sockaddr, options))
        true
      end

      # Answers with a resolver's reply.
      # @param resolver [Resolver, Upstream]
      # @param force [Boolean] also without the RD flag
      # @param name [String, nil] to ask about instead
      # @yieldparam reply [Message] before it is copied
      # @return [Boolean] whether there was a reply
      def passthrough!(resolver, force: false, name: nil, **)
        return fail!(:Refused) && false unless recursive?(force || name)

        reply = forward(resolver, name) or return fail!(:ServFail) && false
        return (@reply = reply) && true unless block_given? || name || @response.answers.any?

        found = Message.parse(reply)
        yield found if block_given?
        @response.flags = @response.flags & ~Message::AA | Message::RA
        @response.rcode = found.rcode
        SECTIONS.each_value { |section| @response.public_send(section).concat(found.public_send(section)) }
        true
      end

      # @param resolver [Resolver, Upstream]
      # @param name [String, nil]
      # @return [Message, nil] the resolver's reply
      def passthrough(resolver, name: nil, **) = forward(resolver, name)&.then { |reply| Message.parse(reply) }

      # @return [String, nil] an upstream's reply as the whole response
      # @api private
      attr_reader :reply

      # @param rcode [Symbol, Integer] such as :NXDomain
      # @return [true]
      def fail!(rcode)
        @response.rcode = rcode
        @response.flags &= ~Message::AA if [2, 5].include?(@response.rcode) # ServFail, Refused
        true
      end
      alias failure! fail!

      # Does nothing: RubyDNS's programs call it, but the response has its question.
      # @return [void]
      def append_question! = nil

      private

      def put(options)
        options = options.merge(@options) unless @options.empty?
        section = options[:section] ? @response.public_send(SECTIONS.fetch(options[:section].to_sym)) : @response.answers
        section << yield((options[:name] || name).to_s, options[:ttl])
        true
      end

      # EDNS concerns one hop (RFC 6891): the upstream gets ours.
      def forward(resolver, name)
        edns = EDNS.new(EDNS::UDP_BYTES, 0, @query.edns ? @query.edns.flags & EDNS::DO : 0, [])
        flags = Message::RD | @query.flags & (Message::CD | Message::AD)
        resolver.forward(Message.query(name || self.name, type, @question.klass, id: @query.id, flags: flags, edns: edns).encode)
      end

      # Resolves only for loopback and the server's networks, as an open resolver serves attacks
      # with forged addresses.
      def recursive?(force)
        (force || @query.recursion_desired?) && @rules.recursion_allowed?(remote_address)
      end
    end
  end
end
